"""Keeps memory that was used once.

A stack makes and drops arrays of megabytes at each step. By default glibc gives each of
them back to the kernel, and every page of the next one costs a fault: a fifth of the
time of small models (``python -m benchmarks.simulation B``).
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them
_BYTES = 1 << 28


def keep_memory() -> None:
    """Asks the C library for it, where that is glibc; elsewhere nothing happens."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _BYTES)
        mallopt(_MMAP_THRESHOLD, _BYTES)
