"""Memory for large vectors that can be given back while its address stays."""

import contextlib
import mmap

import numpy as np
import torch

from fedcore.memory import LARGE


class Room:
    """Memory for float32 values, as a tensor on the CPU.

    After :meth:`free` the values are lost, and their memory is the system's again until
    they are written to.
    """

    def __init__(self, values: int) -> None:
        """``values`` is their number."""
        self._memory: mmap.mmap | None = None
        if 4 * values < LARGE or not hasattr(mmap, "MADV_DONTNEED"):
            self.tensor_D = torch.zeros(values)
            return
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, 4 * values, flags=flags)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without them
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.tensor_D = torch.from_numpy(np.frombuffer(self._memory, np.float32))

    def free(self, start: int = 0, nbytes: int | None = None) -> None:
        """Gives the memory back, if it is large.

        Args:
            start: the first byte, a multiple of a page.
            nbytes: how many; None: all that follow.
        """
        if self._memory is not None:
            left = len(self._memory) - start
            nbytes = left if nbytes is None else min(left, nbytes)
            self._memory.madvise(mmap.MADV_DONTNEED, start, nbytes)
