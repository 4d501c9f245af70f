"""Pareto with minimum 1."""

import pytest

from fedcore.distributions import Pareto
from fedcore.rng import Key


@pytest.mark.parametrize("shape", [1.0, 2.0, 5.0])
def test_above_x_with_probability_x_to_the_minus_shape(shape: float) -> None:
    drawn = Pareto(shape=shape).draw(Key.root(0).generator(), 100_000)
    assert drawn.min() >= 1
    for x in (1.5, 3.0):
        assert (drawn > x).mean() == pytest.approx(x**-shape, abs=0.01)
