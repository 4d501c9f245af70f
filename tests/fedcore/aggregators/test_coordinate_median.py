"""Median of each coordinate: Yin et al., ICML 2018, Definition 1, by hand."""

import numpy as np

from fedcore.aggregators import Contribution, CoordinateMedian
from fedcore.payloads import dense_payload
from fedcore.typing import Vector


def aggregate(*updates: tuple[list[float], float]) -> Vector:
    """The median of (vector, λ) updates."""
    rule = CoordinateMedian().build()
    state = rule.init(2)
    for values, weight in updates:
        payload = dense_payload(np.array(values, np.float32))
        state = rule.accumulate(state, Contribution(payload, weight, 1, None))
    return rule.finalize(state, len(updates))


def test_it_is_the_middle_value_of_each_coordinate() -> None:
    assert aggregate(([1, 9], 1), ([2, 5], 1), ([1e6, 0], 1)).tolist() == [2, 5]


def test_of_an_even_number_it_is_the_mean_of_the_middle_two() -> None:
    updates: list[tuple[list[float], float]] = [
        ([1, 0], 1.0),
        ([2, 0], 1.0),
        ([4, 0], 1.0),
        ([9, 0], 1.0),
    ]
    assert aggregate(*updates).tolist() == [3, 0]


def test_staleness_dampens_before_the_values_are_compared() -> None:
    assert aggregate(([8, 0], 0.25), ([1, 0], 1), ([3, 0], 1)).tolist() == [2, 0]


def test_just_under_half_liars_cannot_leave_the_honest_range() -> None:
    honest = [([1 + i / 10, 2.0], 1.0) for i in range(5)]
    liars = [([-1e30, 1e30], 1.0)] * 4
    agg_D = aggregate(*honest, *liars)
    assert 1 <= agg_D[0] <= 1.5
    assert agg_D[1] == 2
