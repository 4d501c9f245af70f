"""Hinge dampening: Xie et al., OPT 2020, §5.2."""

import pytest

from fedcore.staleness import Hinge


def test_the_weight_falls_only_beyond_the_bound() -> None:
    weigh = Hinge(slope=10, bound=4).build().weigh
    assert [weigh(None, staleness, None) for staleness in range(5)] == [1.0] * 5
    assert weigh(None, 5, None) == pytest.approx(1 / 11)
    assert weigh(None, 8, None) == pytest.approx(1 / 41)


def test_the_default_is_that_of_the_paper() -> None:
    assert (Hinge().slope, Hinge().bound) == (10.0, 4)
