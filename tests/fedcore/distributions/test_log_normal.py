"""Log-normal with median 1."""

import pytest

from fedcore.distributions import LogNormal
from fedcore.rng import Key


def test_one_in_six_is_more_than_e_to_the_sigma_times_the_median() -> None:
    drawn = LogNormal(sigma=1).draw(Key.root(0).generator(), 100_000)
    assert (drawn < 1).mean() == pytest.approx(0.5, abs=0.01)
    assert (drawn > 2.718).mean() == pytest.approx(0.159, abs=0.01)


def test_without_spread_all_are_one() -> None:
    assert set(LogNormal(sigma=0).draw(Key.root(0).generator(), 9).tolist()) == {1.0}
