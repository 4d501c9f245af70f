"""Says what the C library does with memory that was freed, where that is glibc.

A page that goes back to the kernel costs a fault when it is used again, and one that is
kept is nobody else's. So whoever makes arrays again and again keeps, and whoever has
handled a large vector gives back.
"""

import ctypes
import gc
import sys
from typing import Any

LARGE = 4 << 20  # bytes: for fewer, it is not worth the time
MOST = 32 << 20  # bytes of an array that glibc before 2.35 keeps at most
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them


def keep(nbytes: int, largest: int) -> None:
    """Has what is freed kept for the arrays that follow.

    By default it depends on the largest array that was ever freed: where all of them
    are small, arrays of .5 MB go back to the kernel each time.

    Args:
        nbytes: that are kept at most.
        largest: bytes of an array that is kept; larger ones go back at once.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, nbytes)
        # An older glibc refuses what is above its bound, and returns 0.
        _ = mallopt(_MMAP_THRESHOLD, largest) or mallopt(_MMAP_THRESHOLD, MOST)


def give_back(nbytes: int, *, cycles: bool = False) -> None:
    """Gives back what was kept.

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
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


def _of_glibc(name: str) -> Any:
    """Returns a function of the C library, or None where that is another one."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), name, None)
