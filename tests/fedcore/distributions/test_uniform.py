"""Uniform between two bounds."""

import pytest
from pydantic import ValidationError

from fedcore.distributions import UniformDistribution
from fedcore.rng import Key


def test_draws_lie_between_the_bounds_with_the_mean_in_the_middle() -> None:
    drawn = UniformDistribution(low=1, high=3).draw(Key.root(0).generator(), 100_000)
    assert 1 <= drawn.min() < drawn.max() < 3
    assert drawn.mean() == pytest.approx(2, abs=0.02)


def test_bounds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"low 2\.0 is above high 1\.0"):
        UniformDistribution(low=2, high=1)
