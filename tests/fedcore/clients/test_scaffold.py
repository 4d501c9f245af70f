"""SCAFFOLD: no client drift, and c is the mean of all c_i whatever is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import latecomer
from fedcore.aggregators import TrimmedMean
from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import LocalSGD, Scaffold
from fedcore.compressors import ErrorFeedback, TopK
from fedcore.coordinator import Coordinator
from fedcore.errors import ConfigError
from fedcore.protocol import Verdict
from fedcore.recipes import FedAvg, FedBuff
from fedcore.server_optimizers import Momentum
from fedcore.staleness import Polynomial
from fedcore.typing import Array, Vector
from tests.fedcore.clients import bowls
from tests.fedcore.clients.bowls import CLIENTS, DIM, EPOCH, LOST, LR, SPEC, STEPS
from tests.fedcore.clients.trained import trained
from tests.fedsim import toys


def one(*values: float) -> Array:
    return np.array(values, np.float32)


def slopes(*values: float) -> Callable[[Array, int], tuple[Array, Array]]:
    return lambda w_D, step: (np.float32(1.0), one(values[step]))


def test_steps_and_control_variates_by_hand() -> None:
    config = Scaffold(lr=0.5)
    # c = 1, c_i = 3: the gradients 2 and 4 are corrected to 0 and 2, so Δ = ½·2 = 1,
    # c_i⁺ = 3 - 1 + 1 / (2·½) = 3, and nothing is to be said of it.
    found = trained(config, one(10, 1), 2, slopes(2, 4), one(3))
    assert found.delta_D.tolist() == [1, 0]
    assert found.state.tolist() == [3]
    # c = c_i = 0: c_i⁺ is the mean gradient.
    found = trained(config, one(10, 0), 2, slopes(2, 4))
    assert found.delta_D.tolist() == [3, -3]
    assert found.state.tolist() == [3]


class Bowls(bowls.Bowls):
    """With the control variates of both sides."""

    @property
    def control_D(self) -> Vector:
        """C, as the server has it."""
        return self.coordinator.state.exact_D[DIM:]

    @property
    def told_D(self) -> Vector:
        """The mean of all c_i, without the changes that are still to be sent."""
        told_ND = []
        for client in self.clients:
            own_D = client.state.kept
            own_D = np.zeros(DIM, np.float32) if own_D is None else own_D
            memory_D = client.state.memory_D
            told_ND.append(own_D if memory_D is None else own_D + memory_D[DIM:])
        mean_D: Vector = np.mean(told_ND, axis=0)
        return mean_D


def settings(client: Any, cohort: int = CLIENTS, **more: Any) -> FedBuff:
    return FedBuff(buffer=cohort, staleness={"kind": "constant"}, client=client, **more)


def in_turn(config: AlgorithmConfig, tasks: int) -> Bowls:
    made = Bowls(config)
    bowls.in_turn(made, tasks)
    return made


CODED = {"uplink": ErrorFeedback(inner=TopK(ratio=0.34)), "downlink": TopK(ratio=0.5)}
CLIENT = Scaffold(lr=LR, steps=STEPS)


@pytest.mark.parametrize("more", [{}, CODED], ids=["raw", "coded"])
def test_clients_that_differ_do_not_drift_from_the_optimum(more: Any) -> None:
    assert in_turn(settings(CLIENT, **more), 1200).distance < 1e-3
    plain = LocalSGD(lr=LR, steps=STEPS)
    assert in_turn(settings(plain, **more), 1200).distance > 0.05


@pytest.mark.parametrize("cohort", [1, 2, 4])
@pytest.mark.parametrize("more", [{}, CODED], ids=["raw", "coded"])
def test_c_is_the_mean_of_all_c_i_whatever_is_lost(more: Any, cohort: int) -> None:
    made, rng = Bowls(settings(CLIENT, cohort, **more)), np.random.default_rng(1)
    accepted = 0
    for turn in range(60):
        lost = [None, None, None, *LOST][rng.integers(6)]
        made.train(turn % CLIENTS, turn, lost)
        accepted += lost is None
        if accepted % cohort == 0:
            np.testing.assert_allclose(made.control_D, made.told_D, atol=2e-5)


@pytest.mark.parametrize("more", [{}, CODED], ids=["raw", "coded"])
def test_c_is_the_mean_of_all_c_i_though_clients_join_later(more: Any) -> None:
    made = Bowls(settings(CLIENT, 1, **more), at_first=1)
    for turn in range(24):
        if turn in (5, 9, 14):
            made.join()
        made.train(turn % len(made.clients), turn)
        np.testing.assert_allclose(made.control_D, made.told_D, atol=2e-5)
    saved, arrays = made.coordinator.state.dump()
    again = Coordinator(
        made.config.build(SPEC), np.zeros(DIM, np.float32), epoch=EPOCH, seed=0
    )
    again.state.load(saved, arrays)
    assert again.state.roster.joined == made.coordinator.state.roster.joined == CLIENTS


@pytest.mark.parametrize("more", [{}, CODED], ids=["raw", "coded"])
def test_what_a_restored_server_has_lost_is_taken_out_of_c_i(more: Any) -> None:
    made = in_turn(settings(CLIENT, 2, **more), CLIENTS)
    assert np.abs(made.told_D).max() > 0.01
    made.lose_history()
    # What a memory holds comes again, with its change of c_i.
    np.testing.assert_allclose(made.control_D, made.told_D, atol=2e-6)


def test_without_taking_back_what_is_lost_c_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Scaffold, "take_back", lambda self, kept, gone_D: kept)
    made = Bowls(settings(CLIENT))
    for turn in range(8):
        made.train(turn % CLIENTS, turn, Verdict.DISCARDED if turn == 2 else None)
    assert np.abs(made.control_D - made.told_D).max() > 0.01


def test_a_memory_that_its_cap_shortens_leaves_c_the_mean() -> None:
    capped = ErrorFeedback(inner=TopK(ratio=0.1), cap=0.5)
    made = in_turn(settings(CLIENT, uplink=capped), 40)
    assert max(client.state.ledger.capped for client in made.clients) > 0
    np.testing.assert_allclose(made.control_D, made.told_D, atol=2e-5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"staleness": Polynomial()}, "needs staleness constant"),
        ({"aggregator": TrimmedMean()}, "needs aggregator weighted_mean"),
        ({"weigh_by": "samples"}, "needs weigh_by updates"),
    ],
)
def test_what_weighs_updates_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FedAvg(**{"client": Scaffold(), "weigh_by": "updates", **changes})


def test_momentum_and_loops_of_ones_own_are_refused() -> None:
    with pytest.raises(ValidationError, match="scaffold has no momentum"):
        Scaffold(momentum=0.9)
    assert not Scaffold().is_plain


def test_a_run_cannot_begin_or_end_to_have_control_variates() -> None:
    plain = FedAvg(weigh_by="updates")
    controlled = FedAvg(weigh_by="updates", client=Scaffold())
    for first, second in ((plain, controlled), (controlled, plain)):
        with pytest.raises(ConfigError, match="other vectors travel beside the model"):
            first.require_successor(second)


def test_the_servers_momentum_is_the_models_alone() -> None:
    config = FedAvg(weigh_by="updates", client=Scaffold(), server=Momentum())
    made = Bowls(config)
    assert made.coordinator.state.optimizer.shape == (DIM,)
    assert made.coordinator.state.exact_D.shape == (2 * DIM,)


FEDERATIONS: dict[str, dict[str, Any]] = {
    "rounds": {"algorithm": {"kind": "fed_avg", "weigh_by": "updates", "buffer": 3}},
    "buffered": {"algorithm": {"staleness": {"kind": "constant"}}},
    "coded": {
        "algorithm": {
            "staleness": {"kind": "constant"},
            "staleness_limit": 1,
            "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k"}},
            "downlink": {"kind": "top_k", "ratio": 0.5},
        },
        "simulate": {"dropout": 0.2, "speed": {"kind": "log_normal", "sigma": 1.0}},
    },
    "lost": {
        "algorithm": {"staleness": {"kind": "constant"}, "staleness_limit": 0},
        "simulate": {"upload_loss": 0.3, "ack_loss": 0.3},
    },
}


@pytest.mark.parametrize("name", FEDERATIONS)
def test_stacks_and_single_clients_come_to_the_same(tmp_path: Path, name: str) -> None:
    found = {}
    client = {"kind": "scaffold", "lr": 0.05, "steps": 3, "batch": 4}
    for engine in ("exact", "stacked"):
        given = toys.settings(algorithm=FEDERATIONS[name]["algorithm"])
        given["algorithm"]["client"] = client
        more = FEDERATIONS[name].get("simulate", {})
        given["simulate"] = {"clients": 6, "engine": {"kind": engine}, **more}
        given["stop"] = {"versions": 20}
        results = latecomer.run(given, toys.linear(), folder=tmp_path / engine)
        found[engine] = results
    exact, stacked = found["exact"], found["stacked"]
    assert stacked.updates["verdict"] == exact.updates["verdict"]
    np.testing.assert_allclose(
        stacked.central["loss"], exact.central["loss"], rtol=1e-4
    )
    ours, theirs = stacked.model("last"), exact.model("last")
    assert set(ours) == {"0.weight", "0.bias"}
    for tensor in ours:
        np.testing.assert_allclose(ours[tensor], theirs[tensor], rtol=1e-4)
