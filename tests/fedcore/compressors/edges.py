"""Where stochastic rounding stops being a contraction."""

import pytest

# Its variance is at most bucket/(4·levels²) of the square; from 1 on it may expand.
around_the_edge = pytest.mark.parametrize(
    ("bits", "bucket", "bias"),
    [
        (8, 512, "contraction"),
        (8, 4 * 127**2, "unbiased"),
        (4, 195, "contraction"),
        (4, 196, "unbiased"),
        (2, 3, "contraction"),
        (2, 4, "unbiased"),
    ],
)
