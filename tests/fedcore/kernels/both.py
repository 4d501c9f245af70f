"""Runs the same call on the compiled kernels and on their twins."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedcore.kernels import library

COMPILED = library.load("") if library.compiled is None else library.compiled
needed = pytest.mark.skipif(
    COMPILED is None, reason="no kernels were compiled when the package was installed"
)
# Lengths around those that the loops go through at once.
SIZES = (1, 2, 7, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 1000, 4097)


def on_both(call: Callable[[], Any]) -> tuple[Any, Any]:
    """What it returns with the compiled kernels, and without."""
    found = []
    for module in (COMPILED, None):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(library, "compiled", module)
            found.append(call())
    return found[0], found[1]


def same(call: Callable[[], Any]) -> Any:
    """Checks that both return equal bytes; returns one of them."""
    first, second = on_both(call)
    assert raw(first) == raw(second)
    return first


def raw(found: Any) -> Any:
    """Arrays as their type, shape and bytes; NaN is equal to itself so."""
    if isinstance(found, np.ndarray | np.generic):
        return found.dtype.str, found.shape, found.tobytes()
    if isinstance(found, tuple | list):
        return [raw(each) for each in found]
    return found
