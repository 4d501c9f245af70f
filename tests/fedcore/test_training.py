"""One task, one client: from the public model to an update."""

from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.errors import ConfigError, SpecMismatchError, WorkloadError
from fedcore.participant import Trained
from fedcore.recipes import FedAvg
from fedcore.rng import Key
from fedcore.training import (
    Trainer,
    client_seed,
    initial_model,
    task_key,
    task_seeds,
)
from fedcore.workload import Client, TrainingTask
from fedcore.workload import Trained as OwnTrained
from tests.fedcore.workloads import X, Y, algorithm, gradient, line, with_own_loop

PUBLIC_D = np.array([0.5, 1.0], np.float32)
FULL_BATCH = {"kind": "local_sgd", "lr": 0.1, "steps": 3, "batch": 100}


def trainer(workload: Any, *, share_labels: bool = True, **client: Any) -> Trainer:
    config = {**FULL_BATCH, **client}
    return Trainer(
        workload, algorithm(workload, client=config), share_labels=share_labels
    )


def labels(trained: Trained) -> list[int]:
    """How often each class was counted."""
    assert trained.counts is not None
    return [int(count) for count in trained.counts]


def by_hand(steps: int, lr: float = 0.1) -> Any:
    """The model after full-batch steps, in double precision."""
    w = PUBLIC_D.astype(np.float64)
    for _ in range(steps):
        _, slopes = gradient({"slope": w[:1], "offset": w[1:]}, X, Y)
        w = w - lr * np.concatenate([slopes["slope"], slopes["offset"]])
    return w


@pytest.mark.parametrize("workload", [line(), with_own_loop()])
def test_an_update_is_the_public_model_minus_the_trained_one(workload: Any) -> None:
    trained = trainer(workload).train(PUBLIC_D, (X, Y), Key.root(0))
    assert PUBLIC_D - trained.delta_D == pytest.approx(by_hand(3), rel=1e-5)
    assert trained.delta_D.dtype == np.float32
    assert (trained.samples, trained.steps) == (5, 3)
    assert PUBLIC_D.tolist() == [0.5, 1.0]


def test_the_loss_is_the_mean_over_the_steps() -> None:
    losses = [
        gradient({"slope": w[:1], "offset": w[1:]}, X, Y)[0]
        for w in (by_hand(0), by_hand(1), by_hand(2))
    ]
    trained = trainer(line()).train(PUBLIC_D, (X, Y), Key.root(0))
    assert trained.loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_same_key_gives_the_same_update() -> None:
    some = trainer(line(), steps=4, batch=2)
    updates = [
        some.train(PUBLIC_D, (X, Y), Key.root(seed)).delta_D.tobytes()
        for seed in (7, 7, 8)
    ]
    assert updates[0] == updates[1] != updates[2]


def test_labels_are_counted_as_often_as_they_were_used() -> None:
    trained = trainer(line(), steps=None, epochs=3, batch=2).train(
        PUBLIC_D, (X, Y), Key.root(0)
    )
    assert labels(trained) == (3 * np.bincount(Y)).tolist()
    one = trainer(line(), steps=1, batch=2).train(PUBLIC_D, (X, Y), Key.root(0))
    assert sum(labels(one)) == 2


def test_an_own_loop_counts_the_labels_of_all_its_data() -> None:
    trained = trainer(with_own_loop()).train(PUBLIC_D, (X, Y), Key.root(0))
    assert labels(trained) == np.bincount(Y).tolist()


def test_an_own_loop_may_return_numbers_of_its_library() -> None:
    def train(params: Any, data: Any, task: Any) -> latecomer.Trained:
        numbers: Any = {"samples": np.int64(4), "loss": np.float32(0.5)}
        return latecomer.Trained(params, **numbers)

    trained = trainer(with_own_loop(train=train)).train(PUBLIC_D, (X, Y), Key.root(0))
    assert (type(trained.samples), type(trained.loss)) == (int, float)


@pytest.mark.parametrize("workload", [line(), with_own_loop()])
def test_labels_stay_private_where_they_should(workload: Any) -> None:
    quiet = trainer(workload, share_labels=False)
    assert quiet.train(PUBLIC_D, (X, Y), Key.root(0)).counts is None


def test_targets_that_are_no_labels_are_not_counted() -> None:
    trained = trainer(line()).train(PUBLIC_D, (X, Y + 0.5), Key.root(0))
    assert trained.counts is None


@pytest.mark.parametrize("workload", [line(), with_own_loop()])
def test_a_client_with_one_sample_trains(workload: Any) -> None:
    trained = trainer(workload).train(PUBLIC_D, (X[:1], Y[:1]), Key.root(0))
    assert trained.samples == 1
    assert trained.delta_D.any()


@pytest.mark.parametrize("workload", [line(), with_own_loop()])
def test_a_client_without_samples_is_refused(workload: Any) -> None:
    with pytest.raises(WorkloadError, match="train_data returned no samples"):
        trainer(workload).train(PUBLIC_D, (X[:0], Y[:0]), Key.root(0))


@pytest.mark.parametrize(
    "client",
    [
        {"kind": "fed_prox", "mu": 0.1},
        {"kind": "local_sgd", "momentum": 0.9},
        {"kind": "local_sgd", "weight_decay": 0.1},
    ],
)
def test_what_needs_gradients_is_refused_for_an_own_loop(client: Any) -> None:
    workload = with_own_loop()
    with pytest.raises(ConfigError, match="needs gradients, and this workload has a"):
        Trainer(workload, algorithm(workload, client=client))
    Trainer(line(), algorithm(line(), client=client))


def test_an_own_loop_is_told_its_task() -> None:
    told = []

    def train(params: Any, data: Any, task: Any) -> latecomer.Trained:
        told.append(task)
        return latecomer.Trained(params, samples=3)

    workload = with_own_loop(train=train)
    client = {"kind": "local_sgd", "epochs": 2, "batch": 2, "lr": 0.3}
    some = Trainer(workload, algorithm(workload, client=client))
    for seed in (1, 1, 2):
        trained = some.train(PUBLIC_D, (X, Y), Key.root(seed))
    assert [(task.steps, task.lr, task.batch) for task in told] == [(6, 0.3, 2)] * 3
    assert told[0].seed == told[1].seed != told[2].seed
    assert trained.delta_D.tolist() == [0, 0]
    assert (trained.samples, trained.loss) == (3, None)


def test_less_work_is_fewer_steps() -> None:
    for workload in (line(), with_own_loop()):
        some = trainer(workload, steps=8)
        assert some.train(PUBLIC_D, (X, Y), Key.root(0), work=0.25).steps == 2


def test_what_the_algorithm_keeps_comes_back_with_the_next_task() -> None:
    some = trainer(line(), momentum=0.9, keep_momentum=True)
    first = some.train(PUBLIC_D, (X, Y), Key.root(0))
    assert first.kept is not None
    fresh = some.train(PUBLIC_D, (X, Y), Key.root(1))
    rolling = some.train(PUBLIC_D, (X, Y), Key.root(1), first.kept)
    assert rolling.delta_D.tolist() != fresh.delta_D.tolist()


def test_another_model_than_the_federations_is_refused() -> None:
    other = line(initial=lambda rng: {"slope": np.zeros(2), "offset": np.zeros(1)})
    with pytest.raises(SpecMismatchError, match="this workload's model and the feder"):
        Trainer(other, FedAvg().build(line().flat().spec))


def test_a_task_is_random_by_run_client_and_sequence_number() -> None:
    keys = {
        task_key(seed, client, seq)
        for seed in (0, 1)
        for client in ("ann", "bob")
        for seq in (1, 2)
    }
    assert len(keys) == 8


def test_the_seeds_of_many_tasks_are_drawn_together() -> None:
    clients, seqs = ["ann", "bob", "ann"], [1, 1, 70_000]
    streams = np.array([client_seed(5, client) for client in clients], np.uint64)
    alone = [task_key(5, c, s).seed() for c, s in zip(clients, seqs, strict=True)]
    assert task_seeds(streams, np.array(seqs)).tolist() == alone


def test_every_client_derives_the_same_version_zero() -> None:
    ours, theirs = (initial_model(line().flat(), 5) for _ in range(2))
    assert ours.tobytes() == theirs.tobytes()
    assert initial_model(line().flat(), 6).tobytes() != ours.tobytes()


def test_an_own_loop_keeps_a_state_from_task_to_task() -> None:
    told: list[TrainingTask] = []

    def train(params: Any, data: Any, task: TrainingTask) -> OwnTrained:
        told.append(task)
        count = task.state.get("count", 0) + 1
        moments = task.state.get("moments", np.zeros(2))
        moments += 1  # in place: what was kept stays as it is
        return OwnTrained(params, samples=6, state={"count": count, "moments": moments})

    some, client = trainer(with_own_loop(train=train)), Client("ann", 1, 3)
    key = Key.root(0)
    first = some.train(PUBLIC_D, (X, Y), key, version=4, client=client)
    assert (told[0].client, told[0].version, dict(told[0].state)) == (client, 4, {})
    for _ in range(2):
        second = some.train(PUBLIC_D, (X, Y), key, first.kept)
        assert second.kept["count"] == 2
        assert second.kept["moments"].tolist() == [2, 2]


@pytest.mark.parametrize("state", [{"a": [1, 2]}, {"a": object()}, {1: 2}])
def test_a_state_that_cannot_be_saved_is_refused_by_a_sentence(state: Any) -> None:
    def train(params: Any, data: Any, task: TrainingTask) -> OwnTrained:
        return OwnTrained(params, samples=6, state=state)

    with pytest.raises(WorkloadError, match="expected arrays, numbers and texts"):
        trainer(with_own_loop(train=train)).train(PUBLIC_D, (X, Y), Key.root(0))
