"""DS-Sync: the paper's iteration, its invariants, and what it refuses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import latecomer
from fedcore import payloads
from fedcore.aggregators import Contribution
from fedcore.algorithm import Algorithm
from fedcore.clients import DSSync, Taken
from fedcore.coordinator.events import Enrolled
from fedcore.coordinator.machine import reply_to
from fedcore.coordinator.state import ServerState
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.payloads import dense_payload
from fedcore.proofs import Authenticator
from fedcore.protocol import Held, Patch, Pull, Task
from fedcore.recipes import DSSync as Recipe
from fedcore.typing import Array, Vector
from tests.fedsim import toys

DIM, WORKERS, GROUPS = 3, 16, 4
SPEC = ParamSpec.of({"w": np.zeros(DIM)})
EPOCH = "e" * 16
Models = npt.NDArray[np.float64]

shuffles = st.sampled_from(["random", "grid", "fixed"])
seeds = st.integers(0, 2**16)


def built(**settings: Any) -> Algorithm:
    client = DSSync.model_validate({"groups": GROUPS, **settings})
    return Recipe(client=client, buffer=WORKERS).build(SPEC)


def groups(config: DSSync, version: int, count: int = WORKERS) -> list[int]:
    return [config.group_of((number, count), version) for number in range(count)]


class Server:
    """The public model of a federation, and those of its groups."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm, self.version = algorithm, 0
        self.public_D = np.zeros(DIM, np.float32)
        self.buffer = algorithm.aggregator.init(DIM)

    def round(self, steps_ND: Array) -> None:
        """Makes a version of updates whose steps subtract given vectors."""
        rule = self.algorithm.aggregator
        for number, step_D in enumerate(steps_ND):
            payload = dense_payload(update(self.algorithm, self.public_D, step_D))
            place = number, len(steps_ND)
            contribution = Contribution(
                payload, 1, 1, None, base=self.version, place=place
            )
            self.buffer = rule.accumulate(self.buffer, contribution)
        agg_D = rule.finalize(self.buffer, len(steps_ND)).copy()
        assert rule.carry is not None
        self.buffer, self.version = rule.carry(self.buffer), self.version + 1
        self.public_D, _ = self.algorithm.server.update(self.public_D, agg_D, None)

    @property
    def models(self) -> Models:
        """The models of all workers."""
        rule = self.algorithm.aggregator.groups
        assert rule is not None
        numbers = [rule.of((n, WORKERS), self.version) for n in range(WORKERS)]
        return np.array([rule.model(self.buffer, self.public_D, n) for n in numbers])


def update(algorithm: Algorithm, model_D: Vector, step_D: Array) -> Vector:
    """A client's update, whose steps subtract a given vector."""

    def take(start_D: Array, rule: Any) -> Taken:
        return Taken(step_D.astype(np.float32), np.float32(0), rule)

    delta_D: Vector = (
        algorithm.config.client.build().run(model_D, 1, take, None).delta_D
    )
    return delta_D


def apart(models_ND: Models) -> float:
    """The consensus distance."""
    return float(((models_ND - models_ND.mean(axis=0)) ** 2).sum())


def dyadic(seed: int, count: int = WORKERS) -> Array:
    """Vectors whose sums are exact."""
    drawn_ND = np.random.default_rng(seed).integers(-(2**12), 2**12, (count, DIM))
    return drawn_ND.astype(np.float32) * np.float32(2**-10)


def mixing(numbers: Sequence[int]) -> Models:
    """How much of each worker's model each other one takes over."""
    same_NN = np.equal.outer(numbers, numbers).astype(float)
    return same_NN / same_NN.sum(axis=1, keepdims=True)


@given(shuffles, seeds)
def test_it_is_the_papers_iteration_over_workers(shuffle: str, seed: int) -> None:
    algorithm = built(shuffle=shuffle, seed=seed)
    config = algorithm.config.client
    assert isinstance(config, DSSync)
    server = Server(algorithm)
    expected_ND = np.zeros((WORKERS, DIM))
    for version in range(4):
        np.testing.assert_allclose(server.models, expected_ND, atol=1e-5)
        np.testing.assert_allclose(server.public_D, expected_ND.mean(axis=0), atol=1e-5)
        steps_ND = dyadic(seed + version)
        server.round(steps_ND)
        members = mixing(groups(config, version + 1))
        expected_ND = members @ (expected_ND - steps_ND)


@given(shuffles, seeds, st.integers(0, 1000))
def test_each_mixing_matrix_is_doubly_stochastic_with_equal_groups(
    shuffle: str, seed: int, version: int
) -> None:
    config = DSSync.model_validate({"groups": GROUPS, "shuffle": shuffle, "seed": seed})
    numbers = groups(config, version)
    assert np.bincount(numbers).tolist() == [WORKERS // GROUPS] * GROUPS
    found_NN = mixing(numbers)
    assert (found_NN.sum(axis=0) == 1).all()
    assert (found_NN.sum(axis=1) == 1).all()


@given(shuffles, seeds)
def test_averaging_in_groups_keeps_the_mean_of_all_workers(
    shuffle: str, seed: int
) -> None:
    server = Server(built(shuffle=shuffle, seed=seed))
    server.round(dyadic(seed))
    mean_D = server.public_D.tolist()
    for _ in range(3):
        server.round(np.zeros((WORKERS, DIM), np.float32))
        assert server.public_D.tolist() == mean_D
        assert server.models.mean(axis=0).tolist() == mean_D


def test_random_groups_contract_the_distance_by_groups_less_1_over_workers_less_1() -> (
    None
):
    config = DSSync(groups=GROUPS)
    models_ND = np.random.default_rng(0).normal(size=(WORKERS, 200))
    ratios = [
        apart(mixing(groups(config, version)) @ models_ND) / apart(models_ND)
        for version in range(400)
    ]
    assert np.mean(ratios) == pytest.approx((GROUPS - 1) / (WORKERS - 1), rel=0.01)


def test_a_row_and_a_column_make_all_models_equal() -> None:
    server = Server(built(shuffle="grid"))
    server.round(dyadic(0))
    assert apart(server.models) > 1
    server.round(np.zeros((WORKERS, DIM), np.float32))
    assert apart(server.models) == 0


@pytest.mark.parametrize("shuffle", ["random", "fixed"])
def test_fixed_groups_never_come_to_a_consensus_and_shuffled_ones_do(
    shuffle: str,
) -> None:
    server = Server(built(shuffle=shuffle))
    server.round(dyadic(0))
    first = apart(server.models)
    for _ in range(1, 20):
        server.round(np.zeros((WORKERS, DIM), np.float32))
    last = apart(server.models)
    assert last == first if shuffle == "fixed" else last < 1e-6 * first


def test_a_group_without_an_update_gets_the_public_model() -> None:
    server = Server(built(shuffle="fixed"))
    server.round(np.ones((1, DIM), np.float32))
    assert server.public_D.tolist() == [-1] * DIM
    assert (server.models == server.public_D).all()


@pytest.mark.parametrize("engine", ["exact", "stacked"])
def test_one_group_is_federated_averaging_bit_for_bit(
    engine: str, tmp_path: Path
) -> None:
    found = []
    for kind, client in (
        ("ds_sync", {"kind": "ds_sync", "groups": 1}),
        ("fed_avg", {"kind": "local_sgd"}),
    ):
        config = {
            "algorithm": {"kind": kind, "buffer": 4, "client": {**client, "steps": 3}},
            "stop": {"versions": 6},
            "simulate": {"clients": 6, "engine": {"kind": engine}},
        }
        latecomer.run(config, toys.toy(), folder=tmp_path / kind)
        found.append(toys.digests(toys.records(tmp_path / kind)))
    assert found[0] == found[1]
    assert len(found[0]) == 6


@pytest.mark.parametrize("engine", ["exact", "stacked"])
def test_messages_are_as_long_as_those_of_federated_averaging(
    engine: str, tmp_path: Path
) -> None:
    found = []
    for kind, client in (
        ("ds_sync", {"kind": "ds_sync", "groups": GROUPS}),
        ("fed_avg", {"kind": "local_sgd"}),
    ):
        config = {
            "algorithm": {"kind": kind, "buffer": 4, "client": {**client, "steps": 3}},
            "stop": {"versions": 6},
            "simulate": {"clients": 6, "engine": {"kind": engine}},
        }
        run = latecomer.run(config, toys.linear(), folder=tmp_path / kind)
        found.append(run.lanes)
    assert found[0] == found[1]
    assert len(found[0]) >= 2


def test_error_memories_are_the_same_in_both_engines(tmp_path: Path) -> None:
    uplink = {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.3}}
    found = []
    for engine in ("exact", "stacked"):
        config = {
            "algorithm": {
                "kind": "ds_sync",
                "buffer": GROUPS,
                "client": {"kind": "ds_sync", "groups": GROUPS, "steps": 3, "lr": 0.1},
                "uplink": uplink,
            },
            "stop": {"versions": 40},
            "simulate": {"clients": 6, "engine": {"kind": engine}},
        }
        run = latecomer.run(config, toys.linear(), folder=tmp_path / engine)
        found.append(run.model())
    for name, tensor in found[0].items():
        np.testing.assert_allclose(tensor, found[1][name], rtol=1e-4, atol=1e-5)
    assert found[0]["0.weight"] == pytest.approx(np.ones((1, toys.DIM)), abs=0.2)


def started() -> ServerState:
    """A server at version 1, which four clients have joined without numbers."""
    state = ServerState(built(shuffle="fixed"), np.zeros(DIM, np.float32), EPOCH)
    state.published.publish(np.ones(DIM, np.float32), None, None)
    state.note(Enrolled(at=0.0, cid="e", name="e", role="evaluator"))
    for cid in "abcd":
        state.note(Enrolled(at=0.0, cid=cid, name=cid, role="trainer"))
    return state


def test_clients_without_numbers_are_numbered_as_they_join() -> None:
    state = started()
    assert [state.group_of(cid) for cid in "abcd"] == [0, 1, 2, 3]
    state.note(Enrolled(at=1.0, cid="b", name="other", role="trainer"))
    state.note(Enrolled(at=1.0, cid="f", name="f", role="trainer", index=2, count=9))
    assert [state.group_of(cid) for cid in "abcdf"] == [0, 1, 2, 3, 2]
    for cid in "af":  # its update may be under way, with the model of its group
        state.note(
            Enrolled(at=2.0, cid=cid, name=cid, role="trainer", index=1, count=5)
        )
    assert [state.group_of(cid) for cid in "abcdf"] == [0, 1, 2, 3, 2]
    again = ServerState(state.algorithm, np.zeros(DIM, np.float32), EPOCH)
    again.load(*state.dump())
    assert [again.group_of(cid) for cid in "abcdf"] == [0, 1, 2, 3, 2]


def test_a_client_gets_the_model_of_its_group_once_and_only_to_train() -> None:
    state = started()
    state.buffer.beside_GD[1] = 0.5
    proofs, task = Authenticator(None), Task(kind="train", lease=1.0)

    def patch(held: Held | None, task: Task | None, *, waits: bool = False) -> Patch:
        pull = Pull(cid="b", nonce=1, epoch=EPOCH, held=held)
        answer = reply_to(pull, state, proofs, task, done=False, waits=waits)
        return answer.reply.patch

    first = patch(None, task)
    (packed,) = first.messages()
    model_D = payloads.decode(payloads.unpack(packed, (DIM,)))
    assert (first.kind, model_D.tolist()) == ("full", [1.5] * DIM)
    held = Held(EPOCH, 1, first.digest)
    assert patch(held, task).kind == "none"
    assert patch(held, None, waits=True) == Patch.nothing(EPOCH, 1, first.digest)
    last = patch(held, None)
    assert (last.kind, last.digest) == ("full", state.published.digest)


@pytest.mark.parametrize(
    "settings", [{"groups": 1}, {"groups": 3}, {"shuffle": "fixed"}, {"seed": 1}]
)
def test_a_run_cannot_go_on_with_other_groups(settings: dict[str, Any]) -> None:
    groups = {"groups": built().config.client.model_dump()["groups"]}
    other = Recipe(client=DSSync(**groups | settings), buffer=WORKERS)
    with pytest.raises(ConfigError, match="or other models in its place"):
        built().config.require_successor(other)


def test_many_clients_and_wrong_numbers_are_dealt_out_as_well() -> None:
    config = DSSync(groups=3)
    assert 0 <= config.group_of((2**31, 2**32 - 1), 5) < 3
    assert config.group_of((7, 5), 1) == config.group_of((2, 5), 1)
    sizes = np.bincount(groups(config, 9, 5000))
    assert sizes.max() - sizes.min() <= 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"aggregator": {"kind": "weighted_mean"}}, "needs aggregator ds_sync"),
        ({"synchronous": False, "staleness_limit": 3}, "needs rounds"),
        ({"staleness": {"kind": "hinge"}}, "hinge weighs them"),
        ({"server": {"kind": "adam"}}, "needs server sgd with lr 1, and not adam: the"),
        ({"server": {"kind": "sgd", "lr": 0.5}}, "and not sgd with lr 0.5: the model"),
        ({"buffer": 1}, "2 groups need a buffer of as many updates"),
        ({"client": {"kind": "local_sgd"}}, "the client is local_sgd"),
        (
            {"client": {"kind": "local_sgd"}, "aggregator": {"kind": "weighted_mean"}},
            "recipe ds_sync needs client ds_sync",
        ),
        (
            {"client": {"kind": "ds_sync", "shuffle": "grid"}, "buffer": 12},
            "is for 4 clients, and buffer is 12",
        ),
        (
            {"client": {"kind": "ds_sync", "momentum": 0.9, "keep_momentum": True}},
            "keeps no momentum",
        ),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Recipe.model_validate(settings)
