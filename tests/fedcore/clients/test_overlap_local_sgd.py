"""Overlap Local-SGD: the paper's iteration, one message in flight, hidden transfers."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import latecomer
from fedcore.clients import LocalSGD, OverlapLocalSGD, meet_model
from fedcore.clients.scaffold import Scaffold
from fedcore.compressors import ErrorFeedback, Identity, TopK
from fedcore.controllers import AdaComm, IProf
from fedcore.coordinator.events import Decided, Stepped
from fedcore.errors import ConfigError
from fedcore.lr_schedules import Linear
from fedcore.params import ParamSpec
from fedcore.participant import Participant, ParticipantState, may_use, start_ahead
from fedcore.participant import Trained as TaskResult
from fedcore.participant.machine import change_history
from fedcore.protocol import Ack, Held, ModelName, Patch, Reply, Verdict
from fedcore.recipes import FedAvg, OverlapLocalSgd
from fedcore.rng import Key
from fedcore.server_optimizers import Momentum
from fedcore.training import Trainer
from fedcore.typing import Array
from fedcore.workload import Client
from tests.fedcore.clients.trained import trained
from tests.fedcore.workloads import X, Y, line
from tests.fedsim import toys

EPOCH = "0" * 16
WORKERS, DIM, STEPS, LR, ALPHA, BETA = 4, 6, 3, 0.1, 0.6, 0.7
SPEC = ParamSpec.of({"w": np.zeros(DIM)})


def one(*values: float) -> Array:
    return np.array(values, np.float32)


def test_a_task_by_hand() -> None:
    config = OverlapLocalSGD(lr=0.5, alpha=0.75)
    algorithm = config.build()

    def slope(w_D: Array, step: int) -> tuple[Array, Array]:
        return np.float32(1.0), one(4.0)

    # The client's own model is 6: x_end = 6 - 2 = 4. The new model is 8, so
    # x = ¼·4 + ¾·8 = 7 and Δ = 8 - 7 = 1.
    found = trained(config, one(8), 1, slope, one(6, 1))
    assert found.delta_D.tolist() == [1]
    assert found.state.tolist() == [7, 1]
    # The first task begins with the model that came: x_end = 8 - 2 = 6.
    found = trained(config, one(8), 1, slope)
    assert found.delta_D.tolist() == [0.5]
    # The steps do not depend on the new model, which is met afterwards.
    taken = algorithm.run(one(100), 1, lambda start, rule: _stepped(start), one(6, 1))
    assert meet_model(algorithm, one(8), taken).state.tolist() == [7, 1]


def _stepped(start_D: Array) -> Any:
    assert start_D.tolist() == [6]
    from fedcore.clients import Taken

    return Taken(one(2), one(1), None)


@pytest.mark.parametrize("local", [0.0, 0.9])
@pytest.mark.parametrize("beta", [0.0, BETA])
def test_rounds_are_the_papers_iteration(beta: float, local: float) -> None:
    """Against x, z and v as the paper has them, in double precision.

    The velocity u of the local steps is never set to zero.
    """
    rng = np.random.default_rng(0)
    goals_ND = rng.normal(0, 3, (WORKERS, DIM))
    curves_ND = rng.uniform(0.2, 3.0, (WORKERS, DIM))
    config = OverlapLocalSGD(lr=LR, alpha=ALPHA, momentum=local)
    server = Momentum(lr=1.0, beta=beta).build()
    public_D, state, v = np.zeros(DIM, np.float32), None, np.zeros(DIM)
    momentum = server.init(DIM)
    x_ND, u_ND, z = *np.zeros((2, WORKERS, DIM)), np.zeros(DIM)

    def gradient(w_ND: Array, step: int) -> tuple[Array, Array]:
        slope_ND = curves_ND * (w_ND - goals_ND)
        return np.zeros(WORKERS, np.float32), slope_ND.astype(np.float32)

    for _ in range(12):
        for _ in range(STEPS):
            u_ND = local * u_ND + curves_ND * (x_ND - goals_ND)
            x_ND = x_ND - LR * u_ND
        x_ND = (1 - ALPHA) * x_ND + ALPHA * z
        v = beta * v + x_ND.mean(axis=0) - z
        z = z + v
        starts_ND = np.tile(public_D, (WORKERS, 1))
        found = trained(config, starts_ND, STEPS, gradient, state)
        state = found.state
        mean_D = found.delta_D.mean(axis=0)
        public_D, momentum = server.update(public_D, mean_D, momentum)
        np.testing.assert_allclose(public_D, z, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(state[:, :DIM], x_ND, rtol=1e-4, atol=1e-4)


def test_a_velocity_stays_whatever_becomes_of_an_update_and_of_the_settings() -> None:
    config = OverlapLocalSGD(lr=0.5, alpha=0.75, momentum=0.5)

    def slope(w_D: Array, step: int) -> tuple[Array, Array]:
        return np.float32(1.0), one(4.0)

    # v = ½·2 + 4 = 5 and x_end = 6 - 2.5 = 3.5; x = ¼·3.5 + ¾·8 = 6.875.
    kept = one(6, 2, 1)
    found = trained(config, one(8), 1, slope, kept)
    assert found.state.tolist() == [6.875, 5, 1]
    assert config.take_back(kept, one(3)).tolist() == [9, 2, 1]
    forgets = config.model_copy(update={"keep_momentum": False})
    assert trained(forgets, one(8), 1, slope, kept).state.tolist() == [7, 1]
    assert trained(config, one(8), 1, slope, one(6, 1)).state.tolist() == [7, 4, 1]


def participant(**settings: Any) -> Participant:
    config = FedAvg(client=OverlapLocalSGD(alpha=0.5), **settings)
    state = ParticipantState("0", "run", EPOCH)
    client = Participant(config.build(SPEC), state)
    public_D = np.zeros(DIM, np.float32)
    held = Held(EPOCH, 0, "")
    client.state = replace(client.state, held=held, public_D=public_D)
    return client


def finish(client: Participant, *delta: float) -> None:
    """A task with this update, relative to a model of zeros."""
    delta_D = one(*delta)
    task = TaskResult(delta_D, samples=1, kept=np.append(-delta_D, np.float32(1)))
    assert client.finish(task, ModelName(EPOCH, 0), Key.root(0))


def decided(client: Participant, verdict: Verdict) -> Array:
    push = client.push()
    client.settle(Ack(seq=push.seq, digest=push.digest, answer=verdict))
    return client.state.kept


@pytest.mark.parametrize("uplink", [Identity(), TopK(ratio=0.3)])
def test_a_discarded_update_leaves_the_local_model_and_a_rejected_one_stays(
    uplink: Any,
) -> None:
    for verdict in (Verdict.ACCEPTED, Verdict.REJECTED_STALE, Verdict.REJECTED_CLOSED):
        client = participant(uplink=uplink)
        finish(client, 8, 4, 1, 0, 0, 0)
        assert decided(client, verdict).tolist() == [-8, -4, -1, 0, 0, 0, 1]
        assert client.state.ledger.lost == 0
    client = participant(uplink=uplink)
    finish(client, 8, 4, 1, 0, 0, 0)
    kept_D = decided(client, Verdict.DISCARDED)
    left = [0, 0, 0] if uplink.kind == "identity" else [0, -4, -1]
    assert kept_D.tolist() == [*left, 0, 0, 0, 1]


def test_another_history_of_the_server_forgets_the_local_model() -> None:
    client = participant()
    finish(client, 8, 4, 1, 0, 0, 0)
    patch = Patch(kind="full", epoch="1" * 16, start=-1, version=0, digest="")
    reply = Reply(nonce=1, patch=patch, receipt=None)
    state = change_history(client.algorithm, client.state, reply)
    assert state.kept is None
    assert state.pending is None


def test_steps_taken_ahead_are_those_of_the_task() -> None:
    workload = line()
    config = FedAvg(client=OverlapLocalSGD(lr=0.05, steps=3, batch=2))
    algorithm = config.build(workload.flat().spec)
    trainer, client = Trainer(workload, algorithm), Client("a")
    public_D = one(0.5, 1.0)
    state = ParticipantState("a", "run", EPOCH)
    state = replace(state, held=Held(EPOCH, 3, ""), public_D=public_D)
    assert start_ahead(algorithm, state) is None  # there is no model of its own
    state = replace(state, kept=one(2, -1, 1))
    start = start_ahead(algorithm, state)
    assert start is not None
    ahead = trainer.steps(state, (X, Y), 0, client)
    later = replace(state, held=Held(EPOCH, 5, ""), public_D=one(7, 7))
    assert may_use(algorithm, later, start)
    at_once, *_ = trainer.task(later, (X, Y), 0, client)
    then, *_ = trainer.task(later, (X, Y), 0, client, ahead)
    assert at_once.delta_D.tobytes() == then.delta_D.tobytes()
    assert at_once.kept.tobytes() == then.kept.tobytes()
    for changed in (
        replace(later, kept=one(2, -1, 1)),
        replace(later, seq=1),
        replace(later, work=0.5),
        replace(later, kept=None),
    ):
        assert not may_use(algorithm, changed, start)


def rounds(folder: Path, algorithm: dict[str, Any], **simulate: Any) -> Any:
    given = toys.settings(algorithm=algorithm, simulate=simulate)
    given |= {"stop": {"versions": 6}}
    return latecomer.run(given, toys.linear(), folder=folder)


CLIENT = {"kind": "overlap_local_sgd", "lr": 0.05, "steps": 10, "batch": 4}


def overlapping(**changes: Any) -> dict[str, Any]:
    return {"kind": "overlap_local_sgd", "buffer": 4, "client": CLIENT, **changes}


@pytest.mark.parametrize("engine", ["exact", "stacked"])
@pytest.mark.parametrize("step", [0.3, 1.5])
def test_a_round_takes_what_the_longer_of_training_and_transfer_takes(
    engine: str, step: float, tmp_path: Path
) -> None:
    link = {"latency": 1.0, "up_mbit": 1e6, "down_mbit": 1e6}
    simulate = {"step_seconds": step, "link": link, "engine": {"kind": engine}}
    for kind, seconds in (
        ("overlap_local_sgd", max(10 * step, 4.0)),
        ("local_sgd", 10 * step + 4.0),  # a message, its verdict, and a new model
    ):
        algorithm = overlapping()
        algorithm["client"] = {**algorithm["client"], "kind": kind}
        if kind == "local_sgd":
            algorithm["kind"] = "fed_avg"
        results = rounds(tmp_path / kind, algorithm, **simulate)
        ends = [record.at for record in results.of(Stepped)]
        assert len(ends) == 6
        took = [late - early for early, late in pairwise(ends)]
        assert took == pytest.approx([seconds] * 5, abs=1e-3)


HARD: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"client": {**CLIENT, "momentum": 0.5, "nesterov": True}},
    "coded": {"uplink": {"kind": "top_k", "ratio": 0.3}},
    "fed_buff": {"kind": "fed_buff", "buffer": 2},
    "late": {"kind": "fed_buff", "buffer": 1, "staleness_limit": 1},
}


@pytest.mark.parametrize("name", HARD)
def test_both_engines_agree_whatever_happens(name: str, tmp_path: Path) -> None:
    found = {}
    for engine in ("exact", "stacked"):
        simulate = {
            "clients": 6,
            "step_seconds": 0.2,
            "speed": {"kind": "log_normal", "sigma": 0.7},
            "dropout": 0.1,
            "upload_loss": 0.1,
            "ack_loss": 0.1,
            "engine": {"kind": engine},
        }
        given = toys.settings(algorithm=overlapping(**HARD[name]), simulate=simulate)
        given["stop"] = {"versions": 20}
        found[engine] = latecomer.run(given, toys.linear(), folder=tmp_path / engine)
    exact, stacked = found["exact"], found["stacked"]
    assert stacked.updates["verdict"] == exact.updates["verdict"]
    ours, theirs = ([r.at for r in run.of(Decided)] for run in (stacked, exact))
    np.testing.assert_allclose(ours, theirs)
    last = exact.model("last")
    for tensor, values in stacked.model("last").items():
        np.testing.assert_allclose(values, last[tensor], rtol=1e-4, atol=1e-6)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValidationError, match="without memory"):
        FedAvg(client=OverlapLocalSGD(), uplink=ErrorFeedback(inner=TopK()))
    with pytest.raises(ValidationError, match="constant learning rate"):
        OverlapLocalSGD(schedule=Linear(until=10))
    for controller in (AdaComm(), IProf(seconds=1)):
        with pytest.raises(
            ValidationError, match=f"controller {controller.kind} would"
        ):
            OverlapLocalSgd(controllers=(controller,))
    with pytest.raises(ValidationError, match="less than 1"):
        OverlapLocalSGD(alpha=1.0)
    for client in (LocalSGD(), Scaffold()):
        with pytest.raises(ValidationError, match="recipe fed_avg"):
            OverlapLocalSgd(client=client)
    with pytest.raises(ConfigError, match="local model"):
        FedAvg().require_successor(FedAvg(client=OverlapLocalSGD()))
