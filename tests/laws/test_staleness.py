"""The laws that every staleness policy keeps."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcore.staleness import (
    AdaSGD,
    DelayAdaptive,
    Exponential,
    Hinge,
    Inverse,
    LabelBoost,
    Polynomial,
    StalenessConfig,
)
from fedcore.staleness.base import StalenessPolicy
from fedcore.typing import Counts, State
from tests.laws.registered import named, variants
from tests.laws.trees import reloaded, saved

EVERY = variants(
    StalenessConfig,
    AdaSGD(bootstrap=0, window=5),
    AdaSGD(bootstrap=3, window=4, percentile=50, boost_cap=1),
    AdaSGD(bootstrap=1, clamp=False, boost=False),
    DelayAdaptive(limit=1),
    DelayAdaptive(limit=2, exponent=0),
    Exponential(rate=0),
    Exponential(rate=50),
    Hinge(slope=0),
    LabelBoost(inner=Inverse(), cap=1),
    LabelBoost(inner=AdaSGD(bootstrap=0, boost=False), global_labels="unweighted"),
    Hinge(slope=1e308, bound=0),
    Polynomial(exponent=0),
    Polynomial(exponent=1000),
)
MEMORYLESS = [config for config in EVERY if config.build().init() is None]

late = st.integers(0, 100) | st.integers(0, 10**6)
labels = st.none() | st.lists(st.integers(0, 50), max_size=6).map(
    lambda counts: np.array(counts, np.int64)
)
streams = st.lists(st.tuples(late, labels), max_size=12)
Stream = list[tuple[int, Counts | None]]


def after(policy: StalenessPolicy, stream: Stream) -> State:
    """The state after these updates were weighed and observed."""
    state = policy.init()
    for staleness, counts in stream:
        weight = policy.weigh(state, staleness, counts)
        state = policy.observe(state, staleness, counts, weight)
    return state


@named(EVERY)
@given(streams, late, labels)
def test_a_weight_is_above_zero_and_at_most_one(
    config: StalenessConfig, stream: Stream, staleness: int, counts: Counts | None
) -> None:
    policy = config.build()
    weight = policy.weigh(after(policy, stream), staleness, counts)
    assert isinstance(weight, float)
    assert 0 < weight <= 1
    assert np.float32(weight) > 0  # it multiplies float32 values


@named(EVERY)
@given(streams)
def test_an_update_without_labels_that_is_not_late_counts_in_full(
    config: StalenessConfig, stream: Stream
) -> None:
    policy = config.build()
    assert policy.weigh(after(policy, stream), 0, None) == 1


@named(EVERY)
@given(streams, labels)
def test_a_later_update_never_counts_more(
    config: StalenessConfig, stream: Stream, counts: Counts | None
) -> None:
    policy = config.build()
    state = after(policy, stream)
    weights = [policy.weigh(state, staleness, counts) for staleness in range(40)]
    assert all(later <= sooner for sooner, later in itertools.pairwise(weights))


@named(EVERY)
@given(streams, late, labels)
def test_weighing_changes_nothing(
    config: StalenessConfig, stream: Stream, staleness: int, counts: Counts | None
) -> None:
    policy = config.build()
    state = after(policy, stream)
    before = saved(state), None if counts is None else counts.tolist()
    weight = policy.weigh(state, staleness, counts)
    assert policy.weigh(state, staleness, counts) == weight
    assert (saved(state), None if counts is None else counts.tolist()) == before


@named(EVERY)
@given(streams, labels)
def test_observing_leaves_the_counts_untouched(
    config: StalenessConfig, stream: Stream, counts: Counts | None
) -> None:
    policy = config.build()
    state = after(policy, stream)
    for array in [counts, *(c for _, c in stream)]:
        if array is not None:
            array.setflags(write=False)
    for _ in range(2):  # a second time, since the first one may have kept them
        state = policy.observe(state, 3, counts, 0.5)
    after(policy, stream)


@named(EVERY)
@given(streams, streams)
def test_a_saved_state_comes_back_equal_and_goes_on_alike(
    config: StalenessConfig, before: Stream, since: Stream
) -> None:
    policy = config.build()
    state = after(policy, before)
    loaded = reloaded(state, policy.init())
    assert type(loaded) is type(state)
    assert saved(loaded) == saved(state)
    for staleness, counts in since:
        weight = policy.weigh(state, staleness, counts)
        assert policy.weigh(loaded, staleness, counts) == weight
        state = policy.observe(state, staleness, counts, weight)
        loaded = policy.observe(loaded, staleness, counts, weight)
    assert saved(loaded) == saved(state)


@named(EVERY)
def test_two_runs_of_one_policy_share_no_state(config: StalenessConfig) -> None:
    policy = config.build()
    untouched = saved(policy.init())
    after(policy, [(7, np.array([1, 2])), (3, np.array([0, 0, 5]))])
    assert saved(policy.init()) == untouched


@named(MEMORYLESS)
@given(streams, late, labels)
def test_a_memoryless_policy_looks_at_the_staleness_alone(
    config: StalenessConfig, stream: Stream, staleness: int, counts: Counts | None
) -> None:
    policy = config.build()
    weight = policy.weigh(after(policy, stream), staleness, counts)
    assert weight == policy.weigh(None, staleness, None)


@named(EVERY)
def test_the_state_of_a_policy_is_bounded(config: StalenessConfig) -> None:
    policy = config.build()
    counts = np.ones(4, np.int64)
    few, many = (after(policy, [(9, counts)] * n) for n in (3, 60))
    assert _size(many) == _size(few)


def _size(state: State) -> int:
    return sum(map(len, saved(state)[1].values()))
