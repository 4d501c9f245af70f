"""Memory for large vectors that leaves while nobody looks at them.

It belongs to files without names, which are gone with the process. A vector in there
takes memory while it is read or written, and is read back from its file later. So a
server receives any number of large updates at once, and a client trains while its model
and its error memory lie on the disk.
"""

import contextlib
import errno
import mmap
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from fedcore import payloads
from fedcore.typing import Seconds, Vector

LARGE = 32 << 20  # bytes; smaller vectors stay in memory
SPARED = 256 << 20  # bytes of the disk that are left to the journal
OFTEN: Seconds = 0.01  # the memory is given back
_AVAILABLE = hasattr(mmap, "MADV_DONTNEED") and hasattr(os, "posix_fallocate")


class Spill:
    """Large vectors in files without names."""

    def __init__(self, folder: Path) -> None:
        """The files lie in this folder."""
        self._folder = folder
        self._lock = threading.Lock()
        self._used: WeakSet[mmap.mmap] = WeakSet()
        self._is_tended = False

    def memory(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Returns so many bytes that can be written to; few are ordinary memory."""
        in_file = self._in_file(nbytes)
        return np.empty(nbytes, np.uint8) if in_file is None else in_file

    def room(self, nbytes: int) -> memoryview:
        """Returns memory for a message, as :func:`fedcore.payloads.room`."""
        return payloads.room(nbytes, self.memory)

    def move(self, vector_D: Vector) -> Vector:
        """Returns the same values in a file, if they are large and there is room.

        Args:
            vector_D: of any number of dimensions.
        """
        if type(vector_D) is not np.ndarray or vector_D.dtype.hasobject:
            return vector_D
        in_file = None if _is_mapped(vector_D) else self._in_file(vector_D.nbytes)
        if in_file is None:
            return vector_D
        moved_D: Vector = in_file.view(vector_D.dtype).reshape(vector_D.shape)
        moved_D[...] = vector_D
        return moved_D

    def _in_file(self, nbytes: int) -> npt.NDArray[np.uint8] | None:
        """Returns so many bytes in a file; None: they are few, or no file has room."""
        if nbytes >= LARGE and _AVAILABLE:
            with contextlib.suppress(OSError):  # the disk is full, or cannot do that
                return np.frombuffer(self._file(nbytes), np.uint8)
        return None

    def _file(self, nbytes: int) -> mmap.mmap:
        """Maps a file whose room on the disk is taken, or a full disk would kill us.

        Raises:
            OSError: there is no room, or the file system cannot do that.
        """
        if shutil.disk_usage(self._folder).free < nbytes + SPARED:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with tempfile.TemporaryFile(dir=self._folder, prefix=".spill-") as file:
            os.posix_fallocate(file.fileno(), 0, nbytes)
            mapped = mmap.mmap(file.fileno(), nbytes)
        with self._lock:
            self._used.add(mapped)
            if not self._is_tended:
                threading.Thread(target=self._tend, name="spill", daemon=True).start()
                self._is_tended = True
        return mapped

    def _tend(self) -> None:
        """Gives the memory back, again and again, as long as there is a file."""
        while self._give_back():
            time.sleep(OFTEN)

    def _give_back(self) -> bool:
        with self._lock:
            used = list(self._used)
            self._is_tended = bool(used)
        for each in used:
            with contextlib.suppress(OSError):  # it is locked in memory
                each.madvise(mmap.MADV_DONTNEED)
        return bool(used)


def _is_mapped(vector_D: Vector) -> bool:
    """Returns whether the values lie in a file."""
    owner: object = vector_D
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return isinstance(owner, mmap.mmap)
