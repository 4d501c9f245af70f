"""FedDyn: clients that differ agree, and both sides add up the same updates."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore.clients import FedDyn, LocalSGD
from fedcore.compressors import ErrorFeedback, TopK
from fedcore.protocol import Verdict
from fedcore.recipes import FedAvg
from fedcore.recipes import FedDyn as FedDynRecipe
from fedcore.server_optimizers import FedDyn as FedDynServer
from fedcore.typing import Array, Vector
from tests.fedcore.clients.bowls import (
    CLIENTS,
    DIM,
    LOST,
    LR,
    STEPS,
    Bowls,
    in_turn,
)
from tests.fedcore.clients.trained import trained

CODED = {"uplink": ErrorFeedback(inner=TopK(ratio=0.5)), "downlink": TopK(ratio=0.5)}


def one(*values: float) -> Array:
    return np.array(values, np.float32)


def test_steps_and_the_sum_of_updates_by_hand() -> None:
    config = FedDyn(lr=0.5, alpha=0.5)
    # From w = 10 with g_k = αΣΔ = ½·4 = 2 and gradients 4 and 6. First the step is
    # ½·(4 - 2) = 1; then the pull is ½·(9 - 10), and the step ½·(6 - 2 - ½) = 1.75.
    found = trained(
        config, one(10), 2, lambda w_D, step: (0.0, one([4, 6][step])), one(4)
    )
    assert found.delta_D.tolist() == [2.75]
    assert found.state.tolist() == [6.75]
    # w - W = -2.75, so g_k - α(w - W) = 2 + 1.375 is α times the new sum.
    assert 0.5 * found.state.item() == 2 + 0.5 * 2.75


def test_the_server_by_hand() -> None:
    server = FedDynServer().build()
    assert server.of_share is not None
    state = server.init(1)
    # Two of four clients: h/α = -(1/4)·(2·3) = -1.5, X = 10 - 3 - 1.5.
    exact_D, state = server.of_share(0.5, 1.0)(one(10), one(3), state)
    assert exact_D.tolist() == [5.5]
    # A fifth joins, and trains alone: H = 4/5·1.5 + 1/5·(-1) = 1.
    exact_D, state = server.of_share(0.2, 0.8)(exact_D, one(-1), state)
    np.testing.assert_allclose(exact_D, [5.5 + 1 - 1], rtol=1e-6)


def recipe(cohort: int = CLIENTS, alpha: float = 0.5, **more: Any) -> FedDynRecipe:
    client = FedDyn(lr=LR, steps=STEPS, alpha=alpha)
    return FedDynRecipe(
        buffer=cohort, synchronous=False, staleness_limit=0, client=client, **more
    )


def sums(made: Bowls) -> tuple[Vector, Vector]:
    """The mean of all clients' sums, without what is still to be sent, and H."""
    told_ND = []
    for client in made.clients:
        kept_D, memory_D = client.state.kept, client.state.memory_D
        kept_D = np.zeros(DIM, np.float32) if kept_D is None else kept_D
        told_ND.append(kept_D if memory_D is None else kept_D - memory_D)
    mean_D: Vector = np.mean(told_ND, axis=0)
    return mean_D, made.coordinator.state.optimizer


def test_clients_that_differ_do_not_drift_from_the_optimum() -> None:
    assert in_turn(Bowls(recipe()), 1200).distance < 1e-3
    plain = FedAvg(
        buffer=CLIENTS,
        synchronous=False,
        staleness_limit=0,
        client=LocalSGD(lr=LR, steps=STEPS),
    )
    assert in_turn(Bowls(plain), 1200).distance > 0.05


@pytest.mark.parametrize("cohort", [1, 2, 4])
@pytest.mark.parametrize("more", [{}, CODED], ids=["raw", "coded"])
def test_both_sides_add_up_the_same_whatever_is_lost(more: Any, cohort: int) -> None:
    made, rng = Bowls(recipe(cohort, **more)), np.random.default_rng(1)
    accepted = 0
    for turn in range(60):
        lost = [None, None, None, *LOST][rng.integers(6)]
        made.train(turn % CLIENTS, turn, lost)
        accepted += lost is None
        if accepted % cohort == 0:
            clients_D, server_D = sums(made)
            np.testing.assert_allclose(server_D, clients_D, rtol=1e-4, atol=2e-4)


def test_without_taking_back_what_is_lost_the_sums_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FedDyn, "take_back", lambda self, kept, gone_D: kept)
    made = Bowls(recipe())
    for turn in range(8):
        made.train(turn % CLIENTS, turn, Verdict.DISCARDED if turn == 2 else None)
    clients_D, server_D = sums(made)
    assert np.abs(clients_D - server_D).max() > 0.01


def test_clients_that_join_later_are_counted() -> None:
    made = Bowls(recipe(1), at_first=1)
    for turn in range(24):
        if turn in (5, 9, 14):
            made.join()
        made.train(turn % len(made.clients), turn)
        clients_D, server_D = sums(made)
        np.testing.assert_allclose(server_D, clients_D, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"server": {"kind": "sgd"}}, "fed_dyn needs server fed_dyn"),
        ({"client": LocalSGD()}, "server: fed_dyn needs client fed_dyn"),
        ({"staleness": {"kind": "polynomial"}}, "needs staleness constant"),
        ({"aggregator": {"kind": "fed_nova"}}, "needs aggregator weighted_mean"),
        ({"weigh_by": "samples"}, "needs weigh_by updates"),
    ],
)
def test_half_of_it_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FedDynRecipe(**changes)
