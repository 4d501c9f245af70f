"""Vectors for the kernels: of all lengths, places in memory and kinds of numbers."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcore.typing import Vector
from tests.fedcore.kernels.both import SIZES

_TINY = float(np.float32(1e-42))
SPECIAL = (0.0, -0.0, 1.0, -1.0, _TINY, -_TINY, 2.0**-149, 2.0**-126, 3e38, -3e38)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
special = st.sampled_from([*SPECIAL, np.inf, -np.inf, np.nan])
sizes = st.sampled_from([0, *SIZES[:-2]]) | st.integers(0, 300)


def at_any_place(x_D: Vector, place: int) -> Vector:
    """A copy that starts so many values after where memory is usually given out."""
    room = np.empty(len(x_D) + place, np.float32)
    room[place:] = x_D
    return room[place:]


@st.composite
def vectors(draw: st.DrawFn, finite: bool = False) -> Vector:
    """A vector of drawn numbers, or of a bell curve with some of them in it."""
    size = draw(sizes)
    allowed = st.sampled_from(SPECIAL) if finite else special
    if size > 100 or draw(st.booleans()):
        seed = draw(st.integers(0, 2**16))
        scale = draw(st.sampled_from([1e-44, 1e-30, 1.0, 1e30]))
        x_D = np.random.default_rng(seed).standard_normal(size) * scale
        drawn = x_D.astype(np.float32)
        for place in draw(st.lists(st.integers(0, max(0, size - 1)), max_size=4)):
            if size:
                drawn[place] = draw(allowed)
    else:
        drawn = draw(hnp.arrays(np.float32, size, elements=numbers | allowed))
    return at_any_place(drawn, draw(st.integers(0, 3)))
