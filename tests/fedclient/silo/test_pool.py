"""Real worker processes: killed, stopped and raising; the gradient stays exact."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedclient.silo import pool as pool_module
from fedclient.silo import worker as worker_module
from fedclient.silo.answer import Job, answer, decode_answer, digests, shard_of
from fedclient.silo.pool import SiloWorkers
from fedclient.silo.worker import Blueprint
from fedcore.coding import gradient_code
from fedcore.errors import ConfigError, UserCodeError, WorkloadError
from fedcore.model import FlatModel
from fedcore.rng import Key
from fedcore.samples import ArraySamples
from fedcore.typing import Vector
from fedcore.workload import Client
from tests.fedclient.silo import apps
from tests.served import until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(60)]
APPS = Path(__file__).parent / "apps.py"
KEY = Key.root(3)
ROWS = np.arange(0, 100, 2)
SAMPLES = ArraySamples(apps.X, apps.Y)


@contextmanager
def pool(
    workers: int, stragglers: int, attribute: str = "workload"
) -> Iterator[SiloWorkers]:
    code = gradient_code(workers, stragglers)
    blueprint = Blueprint(
        f"{APPS}:{attribute}", None, Client("a"), workers, stragglers, 0
    )
    with SiloWorkers(code, blueprint) as made:
        made.expect(digests(SAMPLES, workers))
        yield made


def model() -> FlatModel:
    return apps.workload.flat()


def start() -> Vector:
    return model().initial(Key.root(0))


def uncoded(workers: int, stragglers: int, w_D: Vector, rows: Any) -> Any:
    """Returns what one process computes by the same arithmetic."""
    code, job = gradient_code(workers, stragglers), Job(1, w_D, rows, KEY)
    answers = {
        worker: answer(model(), SAMPLES, code, worker, job) for worker in range(workers)
    }
    return decode_answer(code, answers)


@pytest.mark.parametrize(
    ("workers", "stragglers"),
    [(4, 1), (5, 2), pytest.param(3, 0, marks=pytest.mark.quick)],
)
def test_the_workers_gradient_is_that_of_the_whole_batch(
    workers: int, stragglers: int
) -> None:
    w_D = start()
    with pool(workers, stragglers) as silo:
        loss, g_D = silo.gradient(w_D, ROWS, KEY)
    whole, whole_D = model().gradient(w_D, *SAMPLES.batch(ROWS))
    assert loss == pytest.approx(whole, rel=1e-6)
    np.testing.assert_allclose(g_D, whole_D, rtol=1e-5, atol=1e-7)


def test_killed_workers_leave_every_bit_of_the_gradient_as_it_is() -> None:
    w_D = start()
    expected = uncoded(4, 1, w_D, ROWS)
    with pool(4, 1) as silo:
        silo.gradient(w_D, ROWS, KEY)
        for turn in range(6):
            os.kill(silo.pids[turn % 4], signal.SIGKILL)
            loss, g_D = silo.gradient(w_D, ROWS, KEY)
            assert loss == expected[0]
            np.testing.assert_array_equal(g_D, expected[1])


def test_a_worker_that_stands_still_is_not_waited_for() -> None:
    w_D = np.zeros(21, np.float32)
    with pool(5, 1) as silo:
        silo.gradient(w_D, ROWS, KEY)
        os.kill(silo.pids[2], signal.SIGSTOP)
        for _ in range(3):
            _, g_D = silo.gradient(w_D, ROWS, KEY)
    np.testing.assert_allclose(
        g_D, model().gradient(w_D, *SAMPLES.batch(ROWS))[1], rtol=1e-5, atol=1e-7
    )


def test_a_warning_names_the_workers_that_a_step_waits_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    w_D = start()
    with pool(4, 1) as silo:
        expected = silo.gradient(w_D, ROWS, KEY)
        monkeypatch.setattr(pool_module, "_PATIENCE", 0.01)
        monkeypatch.setattr(silo, "_longest", 0.0)
        stopped = silo.pids[:2]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(silo.gradient, w_D, ROWS, KEY)
            try:
                until(lambda: "2 of 4 workers have not" in caplog.text, "a warning")
            finally:
                for pid in stopped:
                    os.kill(pid, signal.SIGCONT)
            np.testing.assert_array_equal(found.result()[1], expected[1])
    named = ", ".join(f"{each} (process {pid})" for each, pid in enumerate(stopped))
    assert named in caplog.text


def test_if_more_are_killed_than_may_be_the_sum_waits_for_them() -> None:
    w_D = start()
    with pool(4, 1) as silo:
        expected = silo.gradient(w_D, ROWS, KEY)
        before = silo.pids
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        found = silo.gradient(w_D, ROWS, KEY)
        assert not set(before) & set(silo.pids)
    np.testing.assert_array_equal(found[1], expected[1])


def test_no_process_is_left_at_the_end() -> None:
    with pool(3, 1) as silo:
        silo.gradient(start(), ROWS, KEY)
        pids = silo.pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_small_last_batch_leaves_shards_empty() -> None:
    w_D = start()
    with pool(4, 1) as silo:
        silo.gradient(w_D, ROWS, KEY)
        _, g_D = silo.gradient(w_D, np.array([5]), KEY)
    np.testing.assert_allclose(
        g_D, model().gradient(w_D, *SAMPLES.batch(np.array([5])))[1], rtol=1e-6
    )


def test_a_batch_smaller_than_the_silo_is_refused() -> None:
    with (
        pool(4, 1) as silo,
        pytest.raises(ConfigError, match=r"a batch of 3 samples .* 4 workers: set"),
    ):
        silo.gradient(start(), ROWS[:3], KEY)


@pytest.mark.parametrize(
    ("app", "words"),
    [("raises", "no gradient today"), ("exits", r"training called sys\.exit\(3\)")],
)
def test_what_a_gradient_raises_in_a_worker_is_raised_here(
    app: str, words: str
) -> None:
    with (
        pool(4, 1, app) as silo,
        pytest.raises(UserCodeError, match=f"worker . of 4: .*{words}"),
    ):
        silo.gradient(start(), ROWS, KEY)


def test_an_app_that_is_not_there_is_one_sentence() -> None:
    with (
        pool(3, 1, "nothing") as silo,
        pytest.raises(
            WorkloadError, match=r"worker . of 3: .*'nothing' does not exist"
        ),
    ):
        silo.gradient(start(), ROWS, KEY)


def test_workers_that_die_again_and_again_are_given_up() -> None:
    with (
        pool(3, 1, "dies") as silo,
        pytest.raises(WorkloadError, match="of 3 did not answer after 5 starts"),
    ):
        silo.gradient(start(), ROWS, KEY)


def test_data_that_are_others_in_each_process_are_noticed() -> None:
    with (
        pool(3, 0, "other") as silo,
        pytest.raises(WorkloadError, match="other samples than in the client"),
    ):
        silo.gradient(start(), ROWS, KEY)


def test_workers_end_when_their_client_was_killed(tmp_path: Path) -> None:
    import subprocess
    import sys

    script = (
        "import sys\n"
        "from tests.fedclient.silo.test_pool import *\n"
        "with pool(3, 1) as silo:\n"
        "    silo.gradient(start(), ROWS, KEY)\n"
        "    print(*silo.pids, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pids = list(map(int, parent.stdout.readline().split()))
        assert len(pids) == 3
        parent.kill()
    until(lambda: not any(map(_lives, pids)), "they have ended")


def _lives(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def test_a_worker_keeps_no_row_of_a_shard_that_it_does_not_hold() -> None:
    samples = worker_module.hold_shards(SAMPLES, (0, 2), 4)
    mine = np.array([0, 2, 4, 6, 100])
    np.testing.assert_array_equal(samples.batch(mine)[0], apps.X[mine])
    assert len(samples) == len(SAMPLES)
    with pytest.raises(WorkloadError, match="does not hold it"):
        samples.batch(np.array([1]))


def test_shards_of_a_subset_are_those_of_its_rows() -> None:
    subset = apps.subset.samples(apps.subset.train_data(Client("a")), "train_data")
    samples = worker_module.hold_shards(subset, (1,), 3)
    mine = np.flatnonzero(shard_of(np.arange(len(subset)), 3) == 1)
    np.testing.assert_array_equal(samples.batch(mine)[0], subset.batch(mine)[0])


def test_an_exit_stack_ends_the_workers() -> None:
    with ExitStack() as stack:
        silo = stack.enter_context(pool(2, 1))
        silo.gradient(start(), ROWS, KEY)
        pids = silo.pids
    assert not any(map(_lives, pids))
