"""The moments of the number of active workers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.active_workers import (
    ActiveWorkers,
    distribution,
    distribution_of_bids,
    mean_slowest,
    moments_of,
)

COUNTS = st.integers(1, 16)
SHARES = st.floats(0.0, 0.95)


def moments(on_demand: int, preemptible: int, away: float) -> ActiveWorkers:
    return moments_of(distribution(on_demand, preemptible, away))


@given(st.integers(0, 8), COUNTS, SHARES, st.booleans())
def test_the_mean_of_the_inverse_is_at_least_the_inverse_of_the_mean(
    on_demand: int, preemptible: int, away: float, together: bool
) -> None:
    found = moments_of(
        distribution_of_bids(on_demand, [preemptible], [away])
        if together
        else distribution(on_demand, preemptible, away)
    )
    assert found.inverse >= 1 / found.mean - 1e-12


@given(st.integers(0, 4), COUNTS, COUNTS, st.lists(SHARES, min_size=2, max_size=2))
def test_two_bids_have_the_moments_of_their_three_states(
    on_demand: int, high: int, low: int, away: list[float]
) -> None:
    above_high, above_low = sorted(away)  # the price is above a bid for so long
    states = {on_demand: above_high, on_demand + high: above_low - above_high}
    states[on_demand + high + low] = 1 - above_low
    there = {y: share for y, share in states.items() if y}
    total = sum(there.values())
    found = moments_of(distribution_of_bids(on_demand, [high, low], sorted(away)))
    assert found.inverse == pytest.approx(
        sum(share / y for y, share in there.items()) / total
    )
    assert found.mean == pytest.approx(
        sum(share * y for y, share in there.items()) / total
    )
    assert found.idle == pytest.approx(0 if on_demand else above_high)
    assert found.full == pytest.approx(1 - above_low)


def test_a_lower_bid_cannot_be_there_more_often() -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        distribution_of_bids(0, [1, 1], [0.5, 0.2])
    with pytest.raises(ConfigError, match="at least one"):
        distribution_of_bids(0, [], [])


@given(st.integers(0, 8), COUNTS, SHARES)
def test_another_worker_lowers_the_mean_of_the_inverse(
    on_demand: int, preemptible: int, away: float
) -> None:
    few = moments(on_demand, preemptible, away).inverse
    assert moments(on_demand, preemptible + 1, away).inverse < few + 1e-12
    assert moments(on_demand + 1, preemptible, away).inverse < few + 1e-12


@given(COUNTS, SHARES, SHARES)
def test_more_absence_raises_the_mean_of_the_inverse(
    workers: int, away: float, other: float
) -> None:
    low, high = sorted([away, other])
    few = moments(0, workers, high).inverse
    assert moments(0, workers, low).inverse <= few + 1e-12


@given(COUNTS)
def test_without_absence_it_is_one_by_n(workers: int) -> None:
    assert moments(0, workers, 0.0).inverse == pytest.approx(1 / workers)
    assert moments(workers, 0, 0.9).inverse == pytest.approx(1 / workers)


def test_the_sums_agree_with_draws() -> None:
    rng = np.random.default_rng(0)
    y = 2 + rng.binomial(6, 0.4, size=200_000)
    found = moments(2, 6, 0.6)
    assert found.inverse == pytest.approx(np.mean(1 / y), rel=0.01)
    assert found.mean == pytest.approx(y.mean(), rel=0.01)


def test_workers_under_one_bid_are_all_there_or_all_away() -> None:
    assert distribution_of_bids(1, [3], [0.25]).tolist() == [0, 0.25, 0, 0, 0.75]
    found = moments_of(distribution_of_bids(0, [4], [0.25]))
    assert (found.idle, found.inverse) == (0.25, 0.25)


def test_the_slowest_of_two_dice_takes_161_by_36() -> None:
    assert mean_slowest(range(1, 7), 2) == pytest.approx(161 / 36)


@pytest.mark.parametrize(
    ("on_demand", "preemptible", "away"), [(0, 0, 0.5), (-1, 3, 0.5), (0, 3, 1.0)]
)
def test_nobody_is_refused(on_demand: int, preemptible: int, away: float) -> None:
    with pytest.raises(ConfigError, match=r"at least one|ever there"):
        moments(on_demand, preemptible, away)


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        moments(1, 1, 1.5)
