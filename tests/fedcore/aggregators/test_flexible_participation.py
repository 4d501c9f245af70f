"""Flexible participation: coefficients for clients that did a part of the work."""

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
from fedcore.payloads import dense_payload
from fedcore.protocol import Verdict
from fedcore.recipes import FlexibleParticipation as Recipe
from fedcore.typing import Array
from tests.fedcore.clients.bowls import CLIENTS, LR, STEPS, Bowls, in_turn
from tests.laws.vectors import vector

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
