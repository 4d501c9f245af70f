"""How bytes of a message are read and written: little endian, front to back."""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.errors import PayloadError
from fedcore.typing import Array, Bytes

# The formats that are taken, and of each how many values decoding may pass over.
Declared = Mapping[str, int]


class Reader:
    """Reads a message from front to back.

    Each method raises PayloadError where the message ends too early.
    """

    __slots__ = ("_at", "_data", "declared", "steps")

    def __init__(self, data: Bytes) -> None:
        self._data = memoryview(data).cast("B")
        self._at = 0
        self.declared: Declared | None = None  # for messages inside this one
        self.steps: int | None = None  # values that this one may pass over; None: any

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self._data) - self._at

    def spend(self, steps: int) -> None:
        """Checks a number of values that decoding is about to pass over.

        Raises:
            PayloadError: it is more than messages of this federation ever need.
        """
        if self.steps is not None and steps > self.steps:
            raise PayloadError(
                f"a message that takes {steps} steps, expected at most {self.steps}"
            )

    def bytes(self, count: int) -> memoryview:
        """The next ``count`` bytes, not copied."""
        if count > self.left:
            raise PayloadError(
                f"message ends early: {count} bytes expected, {self.left} left"
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def peek(self, count: int) -> memoryview:
        """Up to ``count`` of the next bytes, without moving on."""
        return self._data[self._at : self._at + count]

    def number(self, form: str) -> Any:
        """One number of a struct format such as ``"I"``."""
        one = struct.Struct("<" + form)
        return one.unpack(self.bytes(one.size))[0]

    def array(self, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """The next ``count`` numbers as a read-only array over the message."""
        kind = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(self.bytes(kind.itemsize * count), kind)

    def end(self) -> None:
        """Raises PayloadError unless everything was read."""
        if self.left:
            raise PayloadError(f"{self.left} bytes too many at the end of the message")


def little(array: Array, dtype: str) -> memoryview:
    """An array's values as little-endian bytes; a copy only where needed."""
    kind = np.dtype(dtype).newbyteorder("<")
    return np.asarray(array, kind, order="C").data.cast("B")
