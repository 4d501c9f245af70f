"""Flexible participation: coefficients for clients that did a part of the work."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.aggregators import (
    Contribution,
    FlexibleParticipation,
    WeightedMean,
    Work,
)
from fedcore.aggregators.base import AggregatorConfig
from fedcore.clients import LocalSGD
from fedcore.compressors import ErrorFeedback, Identity, TopK
from fedcore.coordinator.events import Decided, Enrolled, Stepped
from fedcore.coordinator.state import ServerState
from fedcore.payloads import add, dense_payload
from fedcore.protocol import Verdict
from fedcore.recipes import FedBuff
from fedcore.recipes import FlexibleParticipation as Recipe
from fedcore.typing import Array, State
from tests.fedcore.clients.bowls import CLIENTS, LR, STEPS, Bowls, in_turn
from tests.fedcore.coordinator.desk import EPOCH, SPEC, Desk
from tests.laws.vectors import vector
from tests.protocol.photo import photo

DIM = 4
HUNDRED = LocalSGD(steps=100)


def one(*values: float) -> Array:
    return np.array(values, np.float32)


def merged(config: AggregatorConfig, updates: Sequence[Contribution]) -> Array:
    rule = config.build()
    state = rule.init(len(updates[0].payload.arrays["values"]))
    for update in updates:
        state = rule.accumulate(state, update)
    return rule.finalize(state, sum(update.samples for update in updates))


def update(value: float, work: float) -> Contribution:
    return Contribution(dense_payload(one(value)), 1.0, 1.0, None, work=work)


def weighed(config: FlexibleParticipation, value: float, share: float) -> Contribution:
    """An update as its client sends it."""
    times = config.coefficient(Work(round(100 * share), 1, HUNDRED, HUNDRED))
    return update(times * value, share)


@pytest.mark.parametrize(
    ("scheme", "expected"), [("A", 8.0), ("B", 6.0), ("C", (8 + 2 * 4) / 2)]
)
def test_the_coefficients_by_hand(scheme: Any, expected: float) -> None:
    config = FlexibleParticipation(scheme=scheme)
    parts = [weighed(config, 8, 1.0), weighed(config, 4, 0.5)]
    assert merged(config, parts).tolist() == [expected]


def test_without_whole_work_scheme_a_moves_nothing() -> None:
    config = FlexibleParticipation(scheme="A")
    assert merged(config, [weighed(config, 4, 0.5)] * 2).tolist() == [0]


def test_what_a_task_brings_of_earlier_ones_counts_though_it_does_not() -> None:
    config = FlexibleParticipation(scheme="A")
    assert merged(config, [update(8, 1.0), update(4, 0.5)]).tolist() == [12]
    assert merged(config, [update(4, 0.5)] * 2).tolist() == [4]


def test_the_coefficient_of_c_is_bounded() -> None:
    config = FlexibleParticipation(cap=5)
    assert merged(config, [weighed(config, 4, 0.01)]).tolist() == [20]


@pytest.mark.parametrize("scheme", ["A", "B", "C"])
@given(st.integers(1, 6), st.integers(0, 2**16))
def test_where_all_did_their_work_it_is_the_weighted_mean(
    scheme: Any, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    updates = [
        Contribution(
            dense_payload(vector("gaussian", DIM, seed + i)),
            float(rng.choice([1.0, 0.3])),
            float(rng.integers(1, 50)),
            None,
        )
        for i in range(count)
    ]
    ours = merged(FlexibleParticipation(scheme=scheme), updates)
    np.testing.assert_array_equal(ours, merged(WeightedMean(), updates))


def boosted(
    state: State, *updates: tuple[str, float], clients: int
) -> tuple[float, State]:
    """What a version moves a model by, and the state after it."""
    rule = FlexibleParticipation(boost=2).build()
    for member, value in updates:
        arrived = update(value, 1.0)._replace(member=member, clients=clients)
        state = rule.accumulate(state, arrived)
    moved_D = rule.finalize(state, float(len(updates)))
    assert rule.carry is not None
    return float(moved_D[0]), rule.carry(state)


def begun() -> State:
    """The state of a run in which a and b were heard of, and count alike."""
    state = FlexibleParticipation(boost=2).build().init(1)
    moved, state = boosted(state, ("a", 4), ("b", 8), clients=2)
    assert moved == 6  # a boost of all is none
    return state


def test_an_arrival_counts_three_times_at_first_and_less_and_less() -> None:
    state, shares = begun(), []
    for _ in range(30):
        moved, state = boosted(state, ("a", 0), ("b", 0), ("c", 1), clients=3)
        shares.append(moved)
    first = 3 / (2 * (1 + 2 / 4) + 3)  # a and b come for the second time
    assert shares[0] == pytest.approx(first)
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(1 / 3, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "clients", "share"),
    [("c", 3, 1 / 3), ("d", 4, 3 / 5), ("d", 3, 1 / 3)],
    ids=["the same name", "one client more", "another name of one that left"],
)
def test_nobody_gains_by_leaving_and_enrolling_again(
    name: str, clients: int, share: float
) -> None:
    state = begun()
    for _ in range(50):
        _, state = boosted(state, ("a", 0), ("b", 0), ("c", 0), clients=3)
    moved, state = boosted(state, ("a", 0), ("b", 0), (name, 1), clients=clients)
    assert moved == pytest.approx(share, rel=1e-2)


def test_parts_of_earlier_tasks_are_not_boosted_and_make_nobody_known() -> None:
    rule = FlexibleParticipation(scheme="A", boost=2).build()
    part = update(4, 0.5)._replace(member="a", clients=1)
    state = rule.accumulate(rule.init(1), part)
    assert rule.finalize(state, 1.0).tolist() == [4]
    assert not state.heard


@given(st.integers(1, 6), st.integers(0, 2**16))
def test_without_a_boost_nobody_is_remembered_and_sums_are_as_before(
    count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    made = [
        update(float(rng.normal()), work)._replace(
            member=str(i % 2), samples=float(rng.integers(1, 9)), weight=0.3
        )
        for i, work in enumerate(rng.choice([0.5, 1.0], count))
    ]
    rule, sum_D, left_out = FlexibleParticipation(scheme="A").build(), one(0), 0.0
    state = rule.init(1)
    for each in made:
        state = rule.accumulate(state, each)
        add(each.payload, sum_D, each.weight * each.samples)
        left_out += each.samples * (each.work < 1)
    samples = sum(each.samples for each in made)
    expected_D = sum_D / np.float32(samples - left_out or samples)
    assert rule.finalize(state, samples).tobytes() == expected_D.tobytes()
    assert rule.carry is None
    assert not state.heard


@pytest.mark.parametrize("boost", [-1, 10.5, math.nan])
def test_a_boost_that_nobody_can_mean_is_refused(boost: float) -> None:
    with pytest.raises(ValueError, match="boost"):
        FlexibleParticipation(boost=boost)


def test_records_restore_who_was_heard_of_and_what_they_counted_for() -> None:
    config = FedBuff(buffer=2, aggregator=FlexibleParticipation(boost=2))
    live, records = Desk(config), list[Any]()
    replayed = ServerState(config.build(SPEC), np.zeros(SPEC.dim, np.float32), EPOCH)
    for name, seq in (("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3)):
        if seq == 1:
            live.enrol(name)
            records += live.records(Enrolled)
        live.push(name, seq, [float(seq)] * SPEC.dim)
        records += live.records(Decided) + live.records(Stepped)
    for record in records:
        replayed.restore(record)
    assert live.coordinator.state.buffer.heard == {"a": 3, "b": 1, "c": 1}
    assert photo(replayed.buffer) == photo(live.coordinator.state.buffer)
    assert replayed.exact_D.tobytes() == live.coordinator.state.exact_D.tobytes()


def recipe(scheme: Any, uplink: Any = None) -> Recipe:
    return Recipe(
        buffer=CLIENTS,
        synchronous=False,
        staleness_limit=0,
        weigh_by="updates",
        client=LocalSGD(lr=LR / 50, steps=STEPS),
        aggregator=FlexibleParticipation(scheme=scheme, cap=10.0),
        uplink=uplink or Identity(),
    )


@pytest.mark.slow
def test_a_coordinator_knows_who_did_a_part_of_the_work() -> None:
    parts = (1, STEPS, STEPS, STEPS)
    distance = {
        scheme: in_turn(Bowls(recipe(scheme), steps=parts), 4000).distance
        for scheme in ("A", "B", "C")
    }
    assert distance["C"] < 0.1 * distance["B"] < distance["A"]


@pytest.mark.parametrize("remembers", [True, False])
def test_what_was_folded_back_counts_as_in_its_own_task(remembers: bool) -> None:
    uplink = ErrorFeedback(inner=TopK(ratio=1.0)) if remembers else Identity()
    made = Bowls(recipe("C", uplink), steps=(1, STEPS, STEPS, STEPS))
    made.train(0, 0, Verdict.REJECTED_STALE)
    client = made.clients[0]
    client.state = replace(client.state, work=1.0)
    made.train(0, 1)
    moved_D = made.coordinator.state.buffer.sum_D
    # Each task of a step counts at ten times its weight.
    count = 2 * STEPS if remembers else STEPS
    step_D = -LR / 50 * made.curves_ND[0] * made.goals_ND[0]
    np.testing.assert_allclose(moved_D, count * step_D, rtol=1e-3)


@pytest.mark.parametrize("scheme", ["A", "B", "C"])
@pytest.mark.parametrize(
    ("client", "words"),
    [
        ({"kind": "overlap_local_sgd"}, "holds those of earlier ones"),
        (
            {"kind": "local_sgd", "momentum": 0.9, "keep_momentum": True},
            "keep_momentum",
        ),
        ({"kind": "local_sgd", "may_choose": ["batch"]}, "leave client.may_choose out"),
    ],
)
def test_what_says_something_else_than_the_share_is_refused(
    scheme: Any, client: dict[str, Any], words: str
) -> None:
    given = {"client": client, "aggregator": FlexibleParticipation(scheme=scheme)}
    if scheme == "B":
        Recipe.model_validate(given)
        return
    with pytest.raises(ValueError, match=words):
        Recipe.model_validate(given)
