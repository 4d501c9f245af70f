"""Messages between two processes, with large arrays in shared memory.

The shared memory has no name: the sender passes a handle to a file that is in no
folder, so nothing remains when both processes have ended, however they ended. A room is
a block of this memory. It is written again once the receiver has no array in it any
more. A receiver keeps arrays in a few rooms at most, because each room takes a file
descriptor; it copies other arrays that it keeps.
"""

import math
import mmap
import os
import pickle
import tempfile
import weakref
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

import numpy as np

_LEAST = 1 << 10  # an array of at least so many bytes is not pickled
_STEP = 64  # arrays begin at multiples of it
_SHARE = 1 / 8  # an array that fills less of its room is copied, to free the room
_MOST = 8  # rooms in which a receiver keeps arrays


class _Head(NamedTuple):
    """The head of a message."""

    sizes: list[int]  # of the arrays in a room
    room: int  # the room's number
    fresh: int  # the bytes of a new room
    left: list[int]  # rooms of the other direction that are free again


@dataclass
class _Room:
    """A block of our memory that the other end reads."""

    memory: mmap.mmap
    is_free: bool = True


class Channel:
    """One end of a channel."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ours: list[_Room] = []
        self._theirs: dict[int, mmap.mmap] = {}
        self._visited: dict[int, weakref.ref[Any]] = {}  # by arrays that live, maybe

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
        starts, needed = _lay_out(sizes)
        number, fresh = self._room_of(needed) if parts else (0, 0)
        self._connection.send(_Head(sizes, number, fresh, self._left()))
        if fresh:
            self._hand_over(number, fresh)
        if parts:
            self._ours[number].is_free = False
            room = np.frombuffer(self._ours[number].memory, np.uint8)
            for start, size, part in zip(starts, sizes, parts, strict=True):
                room[start : start + size] = np.frombuffer(part, np.uint8)
        self._connection.send_bytes(data)

    def receive(self) -> Any:
        """Returns the other end's next message.

        Raises:
            EOFError: the other end is gone.
            OSError: likewise.
        """
        head: _Head = self._connection.recv()
        for number in head.left:
            self._ours[number].is_free = True
        if head.fresh:
            handle = recv_handle(self._connection)
            self._theirs[head.room] = _map(handle, head.fresh)
        data = self._connection.recv_bytes()
        parts = self._parts(head) if head.sizes else []
        return pickle.loads(data, buffers=parts)  # noqa: S301 -- our own process

    def close(self) -> None:
        """Closes this end, so that the other end finds nobody."""
        self._connection.close()

    def _parts(self, head: _Head) -> list[Any]:
        """Returns the arrays of a message; large ones stay in the room."""
        room = np.frombuffer(self._theirs[head.room], np.uint8)
        self._visited[head.room] = weakref.ref(room)
        starts, _ = _lay_out(head.sizes)
        parts = [
            room[start : start + size]
            for start, size in zip(starts, head.sizes, strict=True)
        ]
        least = _SHARE * len(room) if len(self._visited) <= _MOST else math.inf
        return [part if part.nbytes >= least else part.copy() for part in parts]

    def _left(self) -> list[int]:
        """Returns the other end's rooms that are free again, each of them once."""
        left = [number for number, room in self._visited.items() if room() is None]
        for number in left:
            del self._visited[number]
        return left

    def _room_of(self, nbytes: int) -> tuple[int, int]:
        """Returns a free room, and the bytes of a new one that is to replace it."""
        free = [
            (len(room.memory), number)
            for number, room in enumerate(self._ours)
            if room.is_free
        ]
        fitting = [(size, number) for size, number in free if size >= nbytes]
        if fitting:
            return min(fitting)[1], 0
        _, number = min(free, default=(0, len(self._ours)))
        return number, nbytes + nbytes // 2

    def _hand_over(self, number: int, nbytes: int) -> None:
        handle = _nameless()
        os.ftruncate(handle, nbytes)
        send_handle(self._connection, handle, 0)  # the owner matters elsewhere
        self._ours[number : number + 1] = [_Room(_map(handle, nbytes))]


def _lay_out(sizes: list[int]) -> tuple[list[int], int]:
    """Returns the offsets of parts with these sizes, and the end of the last part."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // _STEP) * _STEP
    return starts, end


def _nameless() -> int:
    """Returns a file in memory, if the system supports that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("latecomer")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _map(handle: int, nbytes: int) -> mmap.mmap:
    """Maps the memory of a handle, which is not needed any more."""
    try:
        return mmap.mmap(handle, nbytes)
    finally:
        os.close(handle)
