"""Exponential dampening with a fixed rate."""

import math

import pytest

from fedcore.staleness import Exponential
from fedcore.staleness.base import LEAST


def test_the_weight_halves_every_half_life() -> None:
    weigh = Exponential(rate=math.log(2) / 5).build().weigh
    assert [weigh(None, staleness, None) for staleness in (0, 5, 10)] == (
        pytest.approx([1, 1 / 2, 1 / 4])
    )


def test_a_weight_that_would_underflow_stays_above_zero() -> None:
    weigh = Exponential(rate=0.2).build().weigh
    assert math.exp(-0.2 * 10_000) == 0
    assert weigh(None, 10_000, None) == LEAST > 0
