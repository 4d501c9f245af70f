"""One thread for the matrix products of a stack.

The products are many and small. If other processes run beside them, the threads of one
product wait for each other in a busy loop: with two threads, the CNN of ``python -m
benchmarks.simulation fashion`` was seen to take twenty times as long.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# A user who sets one of them has chosen; the libraries read them when loaded.
VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_FOLDERS = ("../numpy.libs", ".dylibs")  # of NumPy's wheels, for Linux and macOS


class _Threads(NamedTuple):
    """The thread setting of one library."""

    number: Callable[[], int]
    limit: Callable[[int], Any]


@contextmanager
def one_thread(*, with_torch: bool = True) -> Iterator[None]:
    """Runs products with one thread in the block, unless the environment sets a number.

    After a product that NumPy's library shared with another thread, that thread spins
    for some hundredths of a second more, on a core that others need.
    """
    if any(name in os.environ for name in VARIABLES):
        yield
        return
    libraries = [*_openblas(), *(_torch() if with_torch else ())]
    before = [library.number() for library in libraries]
    for library in libraries:
        library.limit(1)
    try:
        yield
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.limit(count)


@cache
def _openblas() -> tuple[_Threads, ...]:
    """Returns the OpenBLAS that came with NumPy."""
    found = []
    for folder in _FOLDERS:
        for path in (Path(np.__file__).parent / folder).glob("*openblas*"):
            library = ctypes.CDLL(str(path))
            for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads"):
                get = getattr(library, name.format("get"), None)
                limit = getattr(library, name.format("set"), None)
                if get is not None and limit is not None:
                    found.append(_Threads(get, limit))
                    break
    return tuple(found)


def _torch() -> tuple[_Threads, ...]:
    """Returns torch's setting, if torch is loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return ()
    return (_Threads(torch.get_num_threads, torch.set_num_threads),)
