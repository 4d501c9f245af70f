"""Vectors of the kinds that break compressors, and how to draw them."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcore.payloads import Layout
from fedcore.rng import Key
from fedcore.typing import Vector

SHAPES = ("gaussian", "laplace", "student_t3", "one_hot", "constant", "zero")

keys = st.integers(0, 2**32).map(Key.root)
layouts = st.lists(st.integers(0, 24), min_size=1, max_size=4).map(tuple)


def vector(shape: str, dim: int, seed: int = 0) -> Vector:
    """A vector of a named shape."""
    rng = np.random.default_rng(seed)
    match shape:
        case "gaussian":
            drawn = rng.standard_normal(dim)
        case "laplace":
            drawn = rng.laplace(size=dim)
        case "student_t3":
            drawn = rng.standard_t(3, dim)
        case "one_hot":
            drawn = np.zeros(dim)
            drawn[rng.integers(dim)] = -3.0
        case "constant":
            drawn = np.full(dim, 0.7)
        case "zero":
            drawn = np.zeros(dim)
        case _:
            raise ValueError(shape)
    return drawn.astype(np.float32)


class Given(NamedTuple):
    """A model's layout, an update, and a memory of the same size."""

    layout: Layout
    delta_D: Vector
    memory_D: Vector


@st.composite
def updates(draw: st.DrawFn) -> Given:
    """Updates and memories of all shapes, or of any float32 numbers."""
    layout = draw(layouts.filter(sum) | st.just((1,)))
    dim = sum(layout)
    named = st.builds(
        vector, st.sampled_from(SHAPES), st.just(dim), st.integers(0, 2**16)
    )
    numbers = st.floats(-(2.0**60), 2.0**60, width=32)
    some = named | hnp.arrays(np.float32, dim, elements=numbers)
    return Given(layout, draw(some), draw(some))
