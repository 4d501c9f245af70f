"""The moments of the number of active workers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.active_workers import (
    active_workers,
    distribution,
    mean_slowest,
)

COUNTS = st.integers(1, 16)
SHARES = st.floats(0.0, 0.95)


@given(st.integers(0, 8), COUNTS, SHARES, st.booleans())
def test_the_mean_of_the_inverse_is_at_least_the_inverse_of_the_mean(
    on_demand: int, preemptible: int, away: float, together: bool
) -> None:
    found = active_workers(on_demand, preemptible, away, together=together)
    assert found.inverse >= 1 / found.mean - 1e-12


@given(st.integers(0, 8), COUNTS, SHARES)
def test_another_worker_lowers_the_mean_of_the_inverse(
    on_demand: int, preemptible: int, away: float
) -> None:
    few = active_workers(on_demand, preemptible, away).inverse
    assert active_workers(on_demand, preemptible + 1, away).inverse < few + 1e-12
    assert active_workers(on_demand + 1, preemptible, away).inverse < few + 1e-12


@given(COUNTS, SHARES, SHARES)
def test_more_absence_raises_the_mean_of_the_inverse(
    workers: int, away: float, other: float
) -> None:
    low, high = sorted([away, other])
    few = active_workers(0, workers, high).inverse
    assert active_workers(0, workers, low).inverse <= few + 1e-12


@given(COUNTS)
def test_without_absence_it_is_one_by_n(workers: int) -> None:
    assert active_workers(0, workers, 0.0).inverse == pytest.approx(1 / workers)
    assert active_workers(workers, 0, 0.9).inverse == pytest.approx(1 / workers)


def test_the_sums_agree_with_draws() -> None:
    rng = np.random.default_rng(0)
    y = 2 + rng.binomial(6, 0.4, size=200_000)
    found = active_workers(2, 6, 0.6)
    assert found.inverse == pytest.approx(np.mean(1 / y), rel=0.01)
    assert found.mean == pytest.approx(y.mean(), rel=0.01)


def test_workers_under_one_bid_are_all_there_or_all_away() -> None:
    assert distribution(1, 3, 0.25, together=True).tolist() == [0, 0.25, 0, 0, 0.75]
    found = active_workers(0, 4, 0.25, together=True)
    assert (found.idle, found.inverse) == (0.25, 0.25)


def test_the_slowest_of_two_dice_takes_161_by_36() -> None:
    assert mean_slowest(range(1, 7), 2) == pytest.approx(161 / 36)


@pytest.mark.parametrize(
    ("on_demand", "preemptible", "away"), [(0, 0, 0.5), (-1, 3, 0.5), (0, 3, 1.0)]
)
def test_nobody_is_refused(on_demand: int, preemptible: int, away: float) -> None:
    with pytest.raises(ConfigError, match=r"at least one|ever there"):
        active_workers(on_demand, preemptible, away)


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        active_workers(1, 1, 1.5)
