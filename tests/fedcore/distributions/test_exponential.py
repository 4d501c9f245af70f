"""Exponential with mean 1."""

import pytest

from fedcore.distributions import ExponentialDistribution
from fedcore.rng import Key


def test_the_mean_is_one_and_the_median_ln_two() -> None:
    drawn = ExponentialDistribution().draw(Key.root(0).generator(), 100_000)
    assert drawn.mean() == pytest.approx(1, abs=0.02)
    assert (drawn < 0.6931).mean() == pytest.approx(0.5, abs=0.01)
