"""Arrays from a device's own files: ``.npz`` with x and y, ``.csv`` with a header."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from fedcore.errors import WorkloadError
from fedcore.workload import Client

_KINDS = (".npz", ".csv")
Arrays = dict[str, npt.NDArray[Any]]


def load(path: str | Path, *, target: str = "y") -> tuple[Any, Any]:
    """Inputs and targets of a file.

    Of an ``.npz``: its array ``x`` and the array ``target``. Of a ``.csv``: all other
    columns as float32 (N, F), and the column ``target``.

    Raises:
        WorkloadError: no such file, no such column, or a value is missing.
    """
    arrays = _read(Path(path))
    y = _column(arrays, target, path)
    if Path(path).suffix == ".npz":
        return _column(arrays, "x", path), y
    names = [name for name in arrays if name != target]
    if not names:
        raise WorkloadError(f"{path}: no column beside {target!r}")
    for name in names:
        if not np.issubdtype(arrays[name].dtype, np.number):
            raise WorkloadError(f"{path}: column {name!r} is not numeric")
    columns = [_column(arrays, name, path) for name in names]
    return np.stack(columns, axis=1).astype(np.float32), y


def load_column(path: str | Path, column: str) -> npt.NDArray[Any]:
    """One column or array of a file, such as who produced each row."""
    return _column(_read(Path(path)), column, path)


def client_file(folder: str | Path, client: Client) -> Path:
    """The file of a client: the one that bears its name, else the index-th by name.

    Raises:
        WorkloadError: there is none; the message lists what there is.
    """
    root = Path(folder)
    for kind in _KINDS:
        if (root / f"{client.name}{kind}").is_file():
            return root / f"{client.name}{kind}"
    found = sorted(path for path in root.glob("*") if path.suffix in _KINDS)
    if client.index >= len(found):
        names = ", ".join(path.name for path in found[:8]) or "no .npz or .csv file"
        raise WorkloadError(
            f"{root}: nothing for client {client.name!r}; found {names}"
        )
    return found[client.index]


def _read(path: Path) -> Arrays:
    if path.suffix not in _KINDS:
        raise WorkloadError(f"{path}: expected a file that ends in .npz or .csv")
    if not path.is_file():
        raise WorkloadError(f"{path}: no such file")
    try:
        if path.suffix == ".npz":
            with path.open("rb") as file, np.load(file, allow_pickle=False) as raw:
                return dict(raw)
        return _read_csv(path)
    except (OSError, ValueError, TypeError, EOFError, BadZipFile) as error:
        reason = " ".join(str(error).split())
        raise WorkloadError(f"{path}: cannot be read: {reason}") from error


def _read_csv(path: Path) -> Arrays:
    """The columns; what is missing in them is masked."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not any(lines):
        raise ValueError("it is empty")
    table = np.genfromtxt(
        lines, delimiter=",", names=True, dtype=None, encoding="utf-8", usemask=True
    )
    table = np.atleast_1d(table)
    return {name: table[name] for name in table.dtype.names or ()}


def _column(arrays: Arrays, name: str, path: str | Path) -> npt.NDArray[Any]:
    if name not in arrays:
        raise WorkloadError(f"{path}: no column {name!r}; it has {', '.join(arrays)}")
    missing = np.flatnonzero(np.ma.getmaskarray(arrays[name]))
    if len(missing):
        raise WorkloadError(
            f"{path}: column {name!r} has no value in row {missing[0] + 1}"
        )
    return np.ma.getdata(arrays[name])
