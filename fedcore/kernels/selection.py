"""Which values are large."""

import numpy as np

from fedcore import arrays
from fedcore.kernels.library import find_compiled
from fedcore.typing import Array

_SHORT = 1 << 16  # a longer row has few candidates, which are found by a threshold


def above(x_D: Array, threshold: int, most: int) -> Array | None:
    """Returns where magnitudes are above a threshold; None if there are too many.

    The threshold is the bits of a float32 number that is not negative, or -1; NaN is
    above all of them but itself.
    """
    kernels = find_compiled(x_D) if x_D.dtype == np.float32 else None
    if not kernels:
        return arrays.above(x_D, threshold, most)
    places = np.empty(min(most, len(x_D)), np.int64)
    found = kernels.above(x_D, threshold, places)
    return None if found > len(places) else places[:found]


def largest_indices(x: Array, k: int) -> Array:
    """Returns where the ``k`` largest magnitudes lie, ascending, shape ``(..., k)``."""
    dim = x.shape[-1]
    if 0 < k < dim <= _SHORT and x.dtype == np.float32 and x.size:
        kernels = find_compiled(x)
        if kernels:
            places = np.empty((*x.shape[:-1], k), np.int64)
            kernels.largest(x, x.size // dim, np.empty(dim, np.uint32), places)
            return places
    return arrays.largest_indices(x, k, above)
