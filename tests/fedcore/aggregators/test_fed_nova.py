"""FedNova: steps do not weigh, and equal steps are federated averaging."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedcore.aggregators import Contribution, FedNova, WeightedMean
from fedcore.aggregators.base import AggregatorConfig
from fedcore.clients import Descent, FedProx, LocalSGD, OverlapLocalSGD
from fedcore.controllers import IProf
from fedcore.payloads import dense_payload
from fedcore.recipes import FedAvg
from fedcore.recipes import FedNova as FedNovaRecipe
from fedcore.typing import Array
from tests.fedcore.clients.bowls import CLIENTS, LR, Bowls, in_turn
from tests.fedcore.coordinator.desk import Desk
from tests.laws.vectors import vector

DIM = 6


def one(*values: float) -> Array:
    return np.array(values, np.float32)


def merged(config: AggregatorConfig, *updates: Contribution) -> Array:
    rule = config.build()
    state = rule.init(len(updates[0].payload.arrays["values"]))
    for update in updates:
        state = rule.accumulate(state, update)
    return rule.finalize(state, sum(update.samples for update in updates))


def update(
    delta_D: Array, effort: float, samples: float = 1.0, weight: float = 1.0
) -> Contribution:
    payload = dense_payload(delta_D)
    return Contribution(payload, weight, samples, None, effort=effort, pace=effort)


def test_the_paper_by_hand() -> None:
    # p = (3/4, 1/4), a = (2, 10): τ_eff = 4, so 4·(3/4·8/2 + 1/4·(-20)/10) = 10.
    first, second = update(one(8), 2, samples=3), update(one(-20), 10)
    assert merged(FedNova(), first, second).tolist() == [10]
    # λ dampens the direction alone: 4·(3/4·4 - ½·½) = 11.
    late = second._replace(weight=0.5)
    assert merged(FedNova(), first, late).tolist() == [11]


def test_what_has_no_steps_counts_as_it_is() -> None:
    # Steps give 4·(½·8/4) = 4, and the rest ½·6 = 3.
    assert merged(FedNova(), update(one(8), 4), update(one(6), 0)).tolist() == [7]
    assert merged(FedNova(), update(one(6), 0)).tolist() == [6]


@given(st.integers(1, 6), st.integers(0, 2**16), st.sampled_from([1.0, 7.0, 31.4]))
def test_equal_steps_are_the_weighted_mean_bit_for_bit(
    count: int, seed: int, effort: float
) -> None:
    rng = np.random.default_rng(seed)
    updates = [
        update(
            vector("gaussian", DIM, seed + i),
            effort,
            samples=float(rng.integers(1, 50)),
            weight=float(rng.choice([1.0, 0.5, 0.3])),
        )
        for i in range(count)
    ]
    ours, plain = (merged(rule, *updates) for rule in (FedNova(), WeightedMean()))
    np.testing.assert_array_equal(ours, plain)


def by_steps(rule: Descent, steps: int) -> float:
    """Δ / lr of so many steps whose gradients are all 1, in float64."""
    w_D, start_D = np.zeros(1), np.zeros(1)
    rule = rule.begin(w_D)
    for _ in range(steps):
        rule.step(w_D, np.ones(1), start_D, ...)
    return float((start_D - w_D).item() / rule.lr)


@pytest.mark.parametrize(
    "config",
    [
        LocalSGD(lr=0.1),
        LocalSGD(lr=0.1, momentum=0.9),
        FedProx(lr=0.1, mu=0.5),
        FedProx(lr=0.1, mu=0.5, momentum=0.5),
    ],
    ids=["plain", "momentum", "proximal", "both"],
)
def test_effort_is_how_far_unit_gradients_go(config: LocalSGD) -> None:
    for steps in (1, 2, 7):
        expected = by_steps(config.rule(), steps)
        assert config.effort(steps) == pytest.approx(expected)


def test_effort_by_the_papers_formulas() -> None:
    # Momentum: c = 1, 1.5, 1.75. Proximal: a = 1, 1 + .9, 1 + .9·1.9.
    assert LocalSGD(momentum=0.5).effort(3) == 4.25
    assert FedProx(lr=0.1, mu=1.0).effort(3) == pytest.approx(2.71)


def test_the_cost_of_an_effort_does_not_grow_with_the_steps_that_are_claimed() -> None:
    most = 2**32 - 1  # that a message may claim
    assert LocalSGD(momentum=0.5).effort(most) == pytest.approx(2 * most)
    assert FedProx(lr=0.1, mu=1.0).effort(most) == pytest.approx(10)
    periodic = LocalSGD(lr=0.1).rule()._replace(period=3, pull=1.0)
    expected = periodic.effort(99_999) * (99_999_999 / 99_999)
    assert periodic.effort(99_999_999) == pytest.approx(expected, rel=1e-3)


CLAIMED = 2**32 - 1  # steps, the most that a message can say


@pytest.mark.parametrize("first", ["honest", "liar"])
def test_a_client_that_claims_too_many_steps_moves_no_more_than_another(
    first: str,
) -> None:
    config = FedNovaRecipe(buffer=2, client=LocalSGD(steps=5), weigh_by="updates")
    desk = Desk(config)
    desk.enrol("honest", "liar")
    steps = {"honest": 5, "liar": CLAIMED}
    reasons = {}
    for client in sorted(steps, reverse=first == "liar"):
        desk.push(client, 1, base=0, steps=steps[client])
        reasons[client] = desk.ack.reason
    assert reasons == {
        "honest": "",
        "liar": f"counts for 5 of its {CLAIMED} steps, more than it can be given",
    }
    # As two honest updates of 1 do: each counts for a half.
    moved_D = -desk.coordinator.state.exact_D
    np.testing.assert_allclose(moved_D, 1, rtol=1e-6)


def test_the_steps_of_epochs_are_bounded_by_the_cap_on_samples() -> None:
    client = LocalSGD(epochs=2, batch=10)
    assert FedNovaRecipe(client=client).most_steps(10**6, 0) == 200_000
    capped = FedNovaRecipe(client=client, samples_cap=1000)
    assert capped.most_steps(10**6, 0) == 200
    longer = [IProf(seconds=3, most=5000)]
    assert capped.model_copy(update={"controllers": longer}).most_steps(50, 0) == 500


UNEQUAL = (2, 2, 2, 40)


def settled(kind: type[FedAvg] | type[FedNovaRecipe], **client: Any) -> float:
    """How far from the optimum clients of unequal steps get."""
    config = kind(
        buffer=CLIENTS,
        synchronous=False,
        staleness_limit=0,
        client=LocalSGD(lr=LR / 50, steps=1, **client),
    )
    return in_turn(Bowls(config, steps=UNEQUAL), 6000).distance


@pytest.mark.slow
def test_unequal_steps_do_not_move_the_optimum() -> None:
    assert settled(FedNovaRecipe) < 0.1 * settled(FedAvg)


@pytest.mark.parametrize(
    "client", [LocalSGD(momentum=0.5, keep_momentum=True), OverlapLocalSGD()]
)
def test_updates_that_hold_steps_of_earlier_tasks_are_refused(client: Any) -> None:
    with pytest.raises(ValidationError, match="fed_nova counts the steps of one task"):
        FedNovaRecipe(client=client)


@pytest.mark.parametrize(("mu", "is_refused"), [(9.0, False), (20.0, True)])
@pytest.mark.parametrize("named", [False, True])
def test_steps_that_undo_one_another_are_refused(
    mu: float, named: bool, is_refused: bool
) -> None:
    client: dict[str, Any] = {"kind": "fed_prox", "lr": 0.1, "mu": mu, "steps": 2}
    if named:
        entry = {"clients": "ann", "lr": 0.1}
        client |= {"lr": 0.001, "overrides": [entry]}
    given = {"client": client, "aggregator": {"kind": "fed_nova"}}
    if not is_refused:
        FedAvg.model_validate(given)
        return
    with pytest.raises(ValueError, match="they undo one another"):
        FedAvg.model_validate(given)
