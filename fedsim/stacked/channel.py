"""Objects between two processes; their large arrays go through shared memory.

The memory has no name: the sender hands the receiver a file that is in no folder.
Nothing is left of it when both are gone, however they ended.
"""

import mmap
import os
import pickle
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import numpy as np

_LEAST = 1 << 10  # bytes of an array that is not pickled
_STEP = 64  # arrays begin at multiples of it


class Channel:
    """One end. A message must have been read before the next goes the same way."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ours: mmap.mmap | None = None
        self._theirs: mmap.mmap | None = None

    def send(self, message: Any) -> None:
        """Sends anything that can be pickled.

        Raises:
            OSError: the other end is gone.
        """
        parts: list[memoryview] = []

        def apart(buffer: pickle.PickleBuffer) -> bool:
            """Keeps a buffer out of the pickle, unless it is small."""
            raw = buffer.raw()
            if raw.nbytes < _LEAST:
                return True
            parts.append(raw)
            return False

        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL, buffer_callback=apart)
        sizes = [part.nbytes for part in parts]
        starts, needed = _laid_out(sizes)
        fresh = 0
        if needed > (0 if self._ours is None else len(self._ours)):
            fresh = needed + needed // 2
        self._connection.send((sizes, fresh))
        if fresh:
            self._ours = self._handed_over(fresh)
        if parts:
            assert self._ours is not None
            room = np.frombuffer(self._ours, np.uint8)
            for start, size, part in zip(starts, sizes, parts, strict=True):
                room[start : start + size] = np.frombuffer(part, np.uint8)
        self._connection.send_bytes(data)

    def receive(self) -> Any:
        """The other end's next message; its arrays are the receiver's own.

        Raises:
            EOFError: the other end is gone.
            OSError: likewise.
        """
        sizes, fresh = self._connection.recv()
        if fresh:
            handle = recv_handle(self._connection)
            self._theirs = _mapped(handle, fresh)
        data = self._connection.recv_bytes()
        parts = []
        if sizes:
            assert self._theirs is not None
            room = np.frombuffer(self._theirs, np.uint8)
            starts, _ = _laid_out(sizes)
            parts = [
                room[start : start + size].copy()
                for start, size in zip(starts, sizes, strict=True)
            ]
        return pickle.loads(data, buffers=parts)  # noqa: S301 -- our own process

    def close(self) -> None:
        """The other end finds nobody any more."""
        self._connection.close()

    def _handed_over(self, nbytes: int) -> mmap.mmap:
        handle = _nameless()
        os.ftruncate(handle, nbytes)
        send_handle(self._connection, handle, 0)  # whose it is matters elsewhere
        return _mapped(handle, nbytes)


def _laid_out(sizes: list[int]) -> tuple[list[int], int]:
    """Where parts of these sizes begin, and where the last one ends."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // _STEP) * _STEP
    return starts, end


def _nameless() -> int:
    """A file in memory, where the system has such."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("latecomer")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _mapped(handle: int, nbytes: int) -> mmap.mmap:
    """Its memory; the handle is not needed any more."""
    try:
        return mmap.mmap(handle, nbytes)
    finally:
        os.close(handle)
