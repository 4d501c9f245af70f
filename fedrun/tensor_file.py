"""Reads and writes safetensors files tensor by tensor, without a copy of the whole.

The format: eight bytes with the length of a JSON header; the header, which tells type,
shape and place of each tensor; the tensors' bytes. All numbers are little-endian.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from fedcore.errors import ModelError
from fedcore.text import brief
from fedcore.typing import Vector
from fedrun.plain_files import memory, require_regular, require_size

METADATA = "__metadata__"
_LENGTH, _ALIGNMENT = 8, 8
_CHUNK = 1 << 20  # values that are converted at a time
_KINDS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "C64": "<c8",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
BFLOAT16 = "BF16"  # which NumPy lacks: the upper half of float32
FLOATS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    BFLOAT16: "bfloat16",
}
"""The floating-point types that are read, and what people call them."""


class Stored(NamedTuple):
    """A tensor of a file."""

    dtype: str
    """As the format calls it."""
    shape: tuple[int, ...]
    start: int
    """Its first byte in the file."""
    nbytes: int


class TensorFile:
    """A file that is open, and what its header tells."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """``file`` has been checked to be of the format."""
        self.path, self._file = path, file
        length = int.from_bytes(file.read(_LENGTH), "little")
        header = json.loads(file.read(length))
        self.metadata: dict[str, str] = header.pop(METADATA, None) or {}
        begin = _LENGTH + length
        self.tensors = {
            name: Stored(
                entry["dtype"],
                tuple(entry["shape"]),
                begin + entry["data_offsets"][0],
                entry["data_offsets"][1] - entry["data_offsets"][0],
            )
            for name, entry in header.items()
        }

    def read(self, name: str) -> npt.NDArray[Any]:
        """Returns a tensor; bfloat16 as float32.

        Raises:
            ModelError: it is of a type that NumPy lacks.
        """
        stored = self.tensors[name]
        if stored.dtype == BFLOAT16:
            values = np.empty(stored.shape, np.float32)
            self.read_into(name, values.reshape(-1))
            return values
        array = np.empty(stored.shape, self._kind(name))
        self._fill(stored.start, array.reshape(-1))
        return array

    def read_into(self, name: str, values_n: Vector) -> None:
        """Reads a tensor of floating-point numbers into float32 values, (n,).

        Raises:
            ModelError: it is of a type that NumPy lacks.
        """
        stored = self.tensors[name]
        if stored.dtype == "F32":
            self._fill(stored.start, values_n)
            return
        is_brain = stored.dtype == BFLOAT16
        kind = np.dtype("<u2") if is_brain else self._kind(name)
        for at in range(0, len(values_n), _CHUNK):
            part_n = values_n[at : at + _CHUNK]
            raw_n = np.empty(len(part_n), kind)
            self._fill(stored.start + at * kind.itemsize, raw_n)
            if is_brain:
                raw_n = (raw_n.astype(np.uint32) << np.uint32(16)).view(np.float32)
            with np.errstate(over="ignore"):  # it becomes an infinity, which is refused
                part_n[:] = raw_n

    def _kind(self, name: str) -> np.dtype[Any]:
        dtype = self.tensors[name].dtype
        if dtype not in _KINDS:
            raise ModelError(
                f"{self.path}: tensor {name!r} is {dtype}; expected one of "
                f"{', '.join((*_KINDS, BFLOAT16))}"
            )
        return np.dtype(_KINDS[dtype])

    def _fill(self, start: int, array: npt.NDArray[Any]) -> None:
        if not array.size:
            return
        self._file.seek(start)
        self._file.readinto(array.view(np.uint8).data)  # type: ignore[attr-defined]


@contextmanager
def tensor_file(path: Path) -> Iterator[TensorFile]:
    """Opens a safetensors file.

    Raises:
        ModelError: there is none, or it is damaged.
    """
    try:
        require_size(path, require_regular(path).st_size, memory())
        with safe_open(path, "np"):  # checks the header, and that nothing is missing
            pass
        with path.open("rb") as file:
            yield TensorFile(path, file)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from error
    except (SafetensorError, TypeError, ValueError) as error:
        text = brief(str(error))
        raise ModelError(f"{path}: not a safetensors file: {text}") from error


def write_tensors(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Writes arrays and texts to a file; wide types first, so that all are aligned.

    Raises:
        OSError: it cannot be written.
        TypeError: an array is of a type that the format lacks.
    """
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    end = 0
    for name in names:
        array = arrays[name]
        start, end = end, end + array.nbytes
        header[name] = {
            "dtype": _name_of(name, array.dtype),
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(_LENGTH, "little"))
        file.write(text)
        for name in names:
            array = np.asarray(arrays[name], _KINDS[header[name]["dtype"]], order="C")
            if array.size:
                file.write(array.reshape(-1).view(np.uint8).data)


def _name_of(name: str, dtype: np.dtype[Any]) -> str:
    little = dtype.newbyteorder("<").str
    if little not in _NAMES:
        raise TypeError(f"tensor {name!r} is {dtype}, which safetensors files lack")
    return _NAMES[little]
