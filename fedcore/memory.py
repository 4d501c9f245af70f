"""Gives memory that is not used any more back to the system."""

import ctypes
import gc
import sys

LARGE = 4 << 20  # bytes: for fewer, it is not worth the time


def give_back(nbytes: int, *, cycles: bool = False) -> None:
    """Gives back what the C library has kept for later, where that is glibc.

    A process that handles large vectors does so after each of them: else what was freed
    between others stays, and after some tasks is as much as the vectors.

    Args:
        nbytes: that were freed, about; few are left where they are.
        cycles: look for objects first that only refer to one another, as the calls of
            gRPC and what they have carried.
    """
    if nbytes < LARGE:
        return
    if cycles:
        gc.collect()
    if sys.platform.startswith("linux"):
        malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if malloc_trim is not None:
            malloc_trim(0)
