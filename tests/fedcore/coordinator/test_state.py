"""The state of a server: where its vectors are kept, and what a step does to them."""

from typing import Any

import numpy as np
import pytest

from fedcore import payloads
from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import LocalSGD
from fedcore.clients.scaffold import Scaffold
from fedcore.controllers import IProf
from fedcore.coordinator.events import Decided
from fedcore.coordinator.state import ServerState
from fedcore.measured import Device, Measured
from fedcore.params import ParamSpec
from fedcore.payloads import dense_payload
from fedcore.recipes import FedAvg, FedBuff, Latecomer
from fedcore.rng import Key
from fedcore.server_optimizers import ServerOptimizerConfig
from fedcore.typing import Vector
from tests.fedcore.coordinator.desk import SPEC, Desk
from tests.laws.registered import every
from tests.protocol.photo import photo

DIM = 1000
MODEL_D = np.random.default_rng(0).standard_normal(DIM, dtype=np.float32)


class Aside:
    """A place for vectors, which knows those that lie there."""

    def __init__(self) -> None:
        self.kept: list[Vector] = []

    def __call__(self, vector_D: Vector) -> Vector:
        if any(vector_D is each for each in self.kept):
            return vector_D
        self.kept.append(vector_D.copy())
        return self.kept[-1]

    def has(self, vector_D: Vector) -> bool:
        return any(vector_D is each for each in self.kept)


def stepped(config: AlgorithmConfig, aside: Aside | None) -> ServerState:
    """The state of a server after three versions."""
    algorithm = config.build(ParamSpec.of({"w": MODEL_D}))
    state = ServerState(algorithm, MODEL_D, "epoch")
    if aside is not None:
        state.set_aside(aside)

    def message(gap: Any) -> Any:
        if config.downlink.is_exact:
            return None
        payload, _ = algorithm.downlink.encode(gap(), None, Key.root(0))
        return payloads.pack(payload), payload

    for _ in range(3):
        state.buffer += MODEL_D
        state.count, state.samples = 2, 2.0
        state.step(message)
    return state


@pytest.mark.parametrize("server", every(ServerOptimizerConfig))
@pytest.mark.parametrize("recipe", [FedAvg(), Latecomer()], ids=lambda r: r.kind)
def test_what_is_laid_aside_changes_no_version(
    recipe: AlgorithmConfig, server: Any
) -> None:
    config = recipe.model_copy(update={"server": server.example()})
    aside = Aside()
    usual, laid = stepped(config, None), stepped(config, aside)
    assert usual.published.digest == laid.published.digest
    for one, other in zip(
        usual.dump()[1].values(), laid.dump()[1].values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    arrays = laid.dump()[1]
    assert all(aside.has(v) for n, v in arrays.items() if n.startswith("optimizer"))
    # Where W is X, clients get it.
    assert aside.has(laid.exact_D) == (not config.downlink.is_exact)


def test_what_lies_beside_the_model_moves_with_it() -> None:
    config = FedAvg(client=Scaffold(), buffer=1, weigh_by="updates")
    desk = Desk(config)
    desk.enrol("a")
    dim = SPEC.dim
    values_D = np.arange(1.0, 2 * dim + 1, dtype=np.float32)
    desk.push("a", 1, payload=payloads.pack(dense_payload(values_D)))
    exact_D = desk.coordinator.state.exact_D
    assert desk.version == 1
    assert exact_D.shape == (2 * dim,)
    assert exact_D[:dim].tolist() == (-values_D[:dim]).tolist()
    assert exact_D[dim:].any()


def test_other_settings_may_bear_updates_that_are_later() -> None:
    desk = Desk(FedBuff(staleness_limit=3))
    assert desk.coordinator.state.limit == 3
    desk.coordinator.state.amend(FedBuff(staleness_limit=9).build(SPEC))
    assert desk.coordinator.state.limit == 9


def test_a_replay_learns_how_long_a_task_took() -> None:
    config = FedBuff(buffer=9, client=LocalSGD(), controllers=[IProf(seconds=3)])
    desk = Desk(config)
    desk.enrol("a")
    again = ServerState(config.build(SPEC), np.zeros(SPEC.dim, np.float32), "epoch")
    again.load(*desk.coordinator.state.dump())
    took = Measured(
        64, 2.5, device=Device("phone", cores=4, mhz=2000.0, memory=1 << 30)
    )
    desk.push("a", 1, measured=took)
    [decided] = desk.records(Decided)
    before = photo(again.learnt.controllers)
    again.restore(decided)
    assert photo(again.learnt.controllers) != before
    assert photo(again.learnt.controllers) == photo(
        desk.coordinator.state.learnt.controllers
    )


def test_each_client_has_its_settings_and_a_stranger_the_common_ones() -> None:
    overrides = [{"clients": "b", "lr": 0.5}]
    desk = Desk(FedBuff(client={"kind": "local_sgd", "overrides": overrides}))
    desk.enrol("a", "b")
    state = desk.coordinator.state
    common, own = state.algorithm.clients.all
    assert own != common
    settings = [state.settings_of(cid) for cid in ("a", "b", "nobody")]
    assert settings == [common, own, common]
