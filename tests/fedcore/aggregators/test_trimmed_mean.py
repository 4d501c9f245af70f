"""Trimmed mean: Yin et al., ICML 2018, Definition 2, by hand."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore.aggregators import Contribution, TrimmedMean, WeightedMean
from fedcore.payloads import dense_payload


def aggregate(trim: float, *values: float) -> float:
    """The trimmed mean of updates of one value."""
    rule = TrimmedMean(trim=trim).build()
    state = rule.init(1)
    for value in values:
        payload = dense_payload(np.array([value], np.float32))
        state = rule.accumulate(state, Contribution(payload, 1, 1, None))
    return float(rule.finalize(state, len(values))[0])


def test_the_least_and_the_largest_values_are_cut() -> None:
    assert aggregate(0.2, 1000, 1, 2, 3, -1000) == 2
    assert aggregate(0.4, 1000, 900, 7, 3, -1000) == 7


def test_so_many_are_cut_as_fit_whole_into_the_share() -> None:
    assert aggregate(0.19, 10, 0, 0, 0, 0) == 2  # ⌊0.95⌋ = 0 are cut
    assert aggregate(0.25, 8, 4, 0, 0) == 2  # one on each side


def test_each_coordinate_is_trimmed_by_itself() -> None:
    rule = TrimmedMean(trim=0.34).build()
    state = rule.init(2)
    for values in ([9, 1], [1, 9], [2, 2]):
        payload = dense_payload(np.array(values, np.float32))
        state = rule.accumulate(state, Contribution(payload, 1, 1, None))
    assert rule.finalize(state, 3).tolist() == [2, 2]


def test_without_trimming_it_is_the_mean() -> None:
    assert aggregate(0, 1, 2, 6) == 3


def test_staleness_dampens_before_the_values_are_compared() -> None:
    rule = TrimmedMean(trim=0.34).build()
    state = rule.init(1)
    for value, weight in [(8, 0.25), (1, 1), (3, 1)]:
        payload = dense_payload(np.array([value], np.float32))
        state = rule.accumulate(state, Contribution(payload, weight, 1, None))
    assert rule.finalize(state, 3).tolist() == [2]


def test_a_minority_of_liars_cannot_move_it_far_and_a_mean_they_can() -> None:
    rng = np.random.default_rng(0)
    honest = rng.normal(1.0, 0.1, 9).tolist()
    assert abs(aggregate(0.1, *honest, -1e6) - 1) < 0.2
    rule = WeightedMean().build()
    state = rule.init(1)
    for value in [*honest, -1e6]:
        payload = dense_payload(np.array([value], np.float32))
        state = rule.accumulate(state, Contribution(payload, 1, 1, None))
    assert rule.finalize(state, 10)[0] < -1e4


def test_something_must_be_left() -> None:
    with pytest.raises(ValidationError, match="trim"):
        TrimmedMean(trim=0.5)
