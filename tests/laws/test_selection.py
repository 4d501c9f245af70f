"""The laws that every selection rule keeps."""

import math
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from fedcore.measured import Measured, TaskReport
from fedcore.rng import Key
from fedcore.selection import Oort, Selection, SelectionConfig
from fedcore.typing import State
from tests.laws.registered import named, variants
from tests.laws.trees import reloaded, saved
from tests.laws.vectors import keys

EVERY = variants(
    SelectionConfig,
    Oort(explore=0.3, explore_least=0.0, percentile=50, pacer_step=1),
    Oort(percentile=100, clip=1.0, cut_off=1.0, pacer_delta=0, penalty=0),
)
LEARNING = [config for config in EVERY if config.build().observe is not None]
names = st.lists(st.text("abc", max_size=4), unique=True, max_size=12)
numbers = st.floats(0, 1e300) | st.sampled_from([0.0, math.inf, math.nan, -1.0])
reports = st.builds(
    TaskReport,
    at=st.floats(0, 1e6),
    client=st.text("abc", max_size=4),
    base=st.integers(0, 50),
    steps=st.integers(0, 5),
    loss=st.none() | numbers,
    measured=st.none() | st.builds(Measured, seconds=st.none() | st.floats(0, 1e7)),
    samples=st.integers(1, 1 << 40),
)
streams = st.lists(reports, max_size=15)


def after(rule: Selection, stream: list[TaskReport]) -> State:
    """The state after these reports."""
    state = rule.init()
    for report in stream:
        if rule.observe is not None:
            state = rule.observe(state, report)
    return state


@named(EVERY)
@given(names, streams, st.integers(0, 15), keys)
def test_all_candidates_come_each_once(
    config: SelectionConfig,
    candidates: list[str],
    stream: list[TaskReport],
    room: int,
    key: Key,
) -> None:
    rule = config.build()
    ordered = list(rule.order(after(rule, stream), room)(tuple(candidates), key))
    assert sorted(ordered) == sorted(candidates)


@named(EVERY)
@given(names, streams, st.integers(0, 15), keys)
def test_the_choice_follows_from_the_key(
    config: SelectionConfig,
    candidates: list[str],
    stream: list[TaskReport],
    count: int,
    key: Key,
) -> None:
    rule, before = config.build(), list(candidates)
    state = after(rule, stream)
    order = rule.order(state, count)
    first = list(islice(order(candidates, key), count))
    assert first == list(rule.order(state, count)(candidates, key))[:count]
    assert candidates == before


@named(LEARNING)
@given(streams, streams)
def test_what_was_learnt_outlives_the_server(
    config: SelectionConfig, before: list[TaskReport], later: list[TaskReport]
) -> None:
    rule = config.build()
    assert rule.observe is not None
    state = after(rule, before)
    again = reloaded(state, rule.init())
    for report in later:
        state, again = rule.observe(state, report), rule.observe(again, report)
    assert saved(again) == saved(state)
