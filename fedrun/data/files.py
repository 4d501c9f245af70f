"""Arrays from a device's own files: ``.npz`` with x and y, ``.csv`` with a header."""

from pathlib import Path
from typing import Any

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
        WorkloadError: no such file, or no such column.
    """
    arrays = _read(Path(path))
    _require(arrays, target, path)
    y = arrays.pop(target)
    if Path(path).suffix == ".npz":
        _require(arrays, "x", path)
        return arrays["x"], y
    for name, column in arrays.items():
        if not np.issubdtype(column.dtype, np.number):
            raise WorkloadError(f"{path}: column {name!r} is not numeric")
    return np.stack(list(arrays.values()), axis=1).astype(np.float32), y


def load_column(path: str | Path, column: str) -> npt.NDArray[Any]:
    """One column or array of a file, such as who produced each row."""
    arrays = _read(Path(path))
    _require(arrays, column, path)
    return arrays[column]


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
            with np.load(path, allow_pickle=False) as raw:
                return dict(raw)
        table = np.genfromtxt(
            path, delimiter=",", names=True, dtype=None, encoding="utf-8"
        )
    except (OSError, ValueError) as error:
        raise WorkloadError(f"{path}: cannot be read: {error}") from error
    table = np.atleast_1d(table)
    return {name: table[name] for name in table.dtype.names or ()}


def _require(arrays: Arrays, name: str, path: str | Path) -> None:
    if name not in arrays:
        raise WorkloadError(f"{path}: no column {name!r}; it has {', '.join(arrays)}")
