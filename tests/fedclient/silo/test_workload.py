"""What a workload with workers computes, and what it refuses."""

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from fedclient.silo.answer import Job, answer, decode_answer
from fedclient.silo.workload import SiloWorkload, read_workers, with_workers
from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import LocalSGD, PrioritisedSGD
from fedcore.coding import gradient_code
from fedcore.errors import ConfigError, NotStackableError
from fedcore.rng import Key
from fedcore.samples import ArraySamples
from fedcore.training import Trainer
from fedcore.typing import Vector
from fedcore.workload import Client, LocalTask, Workload
from tests.fedclient.silo import apps, torch_apps

HERE = Path(__file__).parent
KEY = Key.root(5)


def silo(
    stack: ExitStack,
    workload: Workload,
    app: str,
    workers: int = 4,
    stragglers: int = 1,
) -> SiloWorkload:
    code = gradient_code(workers, stragglers)
    return with_workers(workload, f"{HERE / app}:workload", None, code, stack)


def delta(made: Workload, start_D: Vector) -> Vector:
    task = LocalTask(LocalSGD(lr=0.1, steps=6, batch=20), KEY, client=Client("a"))
    model = made.flat()
    model.seed(KEY)
    data = made.train_data(Client("a"))
    return np.asarray(made.train_task(model, start_D, data, task).delta_D)


@pytest.mark.processes
@pytest.mark.timeout(60)
def test_a_task_with_workers_is_the_one_without() -> None:
    start_D = apps.workload.flat().initial(KEY)
    with ExitStack() as stack:
        coded = delta(silo(stack, apps.workload, "apps.py"), start_D)
    alone = delta(apps.workload, start_D)
    np.testing.assert_allclose(coded, alone, atol=1e-6)


@pytest.mark.processes
@pytest.mark.timeout(60)
def test_dropout_draws_the_same_in_all_workers_that_hold_a_shard() -> None:
    workload = torch_apps.workload
    w_D, rows = workload.flat().initial(KEY), np.arange(40)
    samples, code = ArraySamples(apps.X, apps.Y), gradient_code(4, 1)
    job = Job(1, w_D, rows, KEY.fold_in("step", 1))
    answers = {
        worker: answer(workload.flat(), samples, code, worker, job)
        for worker in range(4)
    }
    _, expected_D = decode_answer(code, answers)
    with ExitStack() as stack:
        made = silo(stack, workload, "torch_apps.py")
        data = made.samples(made.train_data(Client("a")), "train_data")
        model = made.flat()
        model.gradient(w_D, *data.batch(rows))  # all of them have been started
        for turn in range(4):
            model.seed(KEY)
            os.kill(made.silo.pool.pids[turn], signal.SIGKILL)
            _, g_D = model.gradient(w_D, *data.batch(rows))
            np.testing.assert_array_equal(g_D, expected_D)


def test_a_loop_of_the_users_own_is_refused() -> None:
    with ExitStack() as stack, pytest.raises(ConfigError, match="loop of its own"):
        silo(stack, apps.own_loop, "apps.py").flat()


def test_a_client_algorithm_that_weighs_samples_is_refused() -> None:
    with ExitStack() as stack:
        made = silo(stack, apps.workload, "apps.py")
        config = AlgorithmConfig.model_validate(
            {"kind": "fed_buff", "client": {"kind": "prioritised_sgd"}}
        )
        assert isinstance(config.client, PrioritisedSGD)
        with pytest.raises(ConfigError, match="weighs single samples"):
            Trainer(made, config.build(made.flat().spec))


def test_the_model_is_not_stacked() -> None:
    with ExitStack() as stack, pytest.raises(NotStackableError):
        silo(stack, apps.workload, "apps.py").flat().stack()


def test_without_workers_there_is_no_code() -> None:
    assert read_workers(None, None) is None
    code = read_workers(6, None)
    assert code is not None
    assert code.stragglers == 0


def test_more_workers_than_a_machine_can_run_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="--workers: 100000 workers: expected 1000 or fewer"
    ):
        read_workers(100_000, 0)
