"""The laws that every update filter keeps."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcore.typing import Counts, State
from fedcore.update_filters import FleetController, UpdateFilter, UpdateFilterConfig
from tests.laws.registered import named, variants
from tests.laws.trees import reloaded, saved

EVERY = variants(
    UpdateFilterConfig,
    FleetController(size_percentile=50, window=4),
    FleetController(similarity_percentile=30, side="low", window=3),
    FleetController(size_percentile=10, similarity_percentile=99, window=5),
)

samples = st.integers(1, 10**6)
labels = st.none() | st.lists(st.integers(0, 50), max_size=6).map(
    lambda counts: np.array(counts, np.int64)
)
streams = st.lists(st.tuples(samples, labels), max_size=12)
Stream = list[tuple[int, Counts | None]]


def after(rule: UpdateFilter, stream: Stream) -> State:
    """The state after these updates."""
    state = rule.init()
    for count, labels_C in stream:
        state = rule.observe(state, count, labels_C)
    return state


@named(EVERY)
@given(streams, samples, labels)
def test_admitting_changes_nothing(
    config: UpdateFilterConfig, stream: Stream, count: int, counts: Counts | None
) -> None:
    rule = config.build()
    state = after(rule, stream)
    before = saved(state)
    answer = rule.refusal(state, count, counts)
    assert rule.refusal(state, count, counts) == answer
    assert saved(state) == before


@named(EVERY)
@given(streams, samples, labels)
def test_a_refusal_is_a_sentence(
    config: UpdateFilterConfig, stream: Stream, count: int, counts: Counts | None
) -> None:
    rule = config.build()
    reason = rule.refusal(after(rule, stream), count, counts)
    assert reason is None or len(reason.split()) > 3


@named(EVERY)
@given(samples, labels)
def test_the_first_update_is_always_used(
    config: UpdateFilterConfig, count: int, counts: Counts | None
) -> None:
    rule = config.build()
    assert rule.refusal(rule.init(), count, counts) is None


@named(EVERY)
@given(streams, streams)
def test_a_saved_state_comes_back_equal_and_goes_on_alike(
    config: UpdateFilterConfig, before: Stream, since: Stream
) -> None:
    rule = config.build()
    state = after(rule, before)
    loaded = reloaded(state, rule.init())
    assert type(loaded) is type(state)
    assert saved(loaded) == saved(state)
    for count, counts in since:
        assert rule.refusal(loaded, count, counts) == rule.refusal(state, count, counts)
        state = rule.observe(state, count, counts)
        loaded = rule.observe(loaded, count, counts)
    assert saved(loaded) == saved(state)


@named(EVERY)
@given(streams, streams)
def test_what_is_learnt_of_refusals_is_saved_and_admits_what_is_usual(
    config: UpdateFilterConfig, used: Stream, refused: Stream
) -> None:
    rule = config.build()
    state = after(rule, used)
    if rule.refused is None:
        return
    for count, counts in refused:
        if counts is not None:
            counts.setflags(write=False)
        state = rule.refused(state, count, counts)
    assert saved(reloaded(state, rule.init())) == saved(state)
    largest = max((count for count, _ in used + refused), default=1)
    assert rule.refusal(state, largest, None) is None


@named(EVERY)
def test_a_client_rests_for_a_while_or_no_task_is_judged_before(
    config: UpdateFilterConfig,
) -> None:
    assert config.rest is None or 0 < config.rest < float("inf")
    assert config.rest is None or not config.accepts_all


@named(EVERY)
@given(streams)
def test_observing_leaves_the_counts_untouched(
    config: UpdateFilterConfig, stream: Stream
) -> None:
    for _, counts in stream:
        if counts is not None:
            counts.setflags(write=False)
    after(config.build(), stream + stream)
