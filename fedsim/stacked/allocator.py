"""Keeps memory that was used once, and seldom looks for what is not used any more.

A stack makes and drops arrays of megabytes at each step. By default glibc gives each of
them back to the kernel, and every page of the next one costs a fault: a fifth of the
time of small models (``python -m benchmarks.simulation B``).
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them
_BYTES = 1 << 28
_NEW_OBJECTS = 100_000  # between two searches for cycles


def keep_memory() -> None:
    """Asks the C library for it, where that is glibc; elsewhere nothing happens."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _BYTES)
        mallopt(_MMAP_THRESHOLD, _BYTES)


@contextmanager
def few_collections() -> Iterator[None]:
    """Spares all objects that there are from the search for cycles; others wait longer.

    A simulation makes many small objects and no cycles of them, and what it knows of
    100,000 clients would be searched again and again: a fifth of its time.
    """
    before = gc.get_threshold()
    if not before[0] or not gc.isenabled():
        yield
        return
    gc.freeze()
    gc.set_threshold(max(_NEW_OBJECTS, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
