"""Several processes come to what one comes to, whatever becomes of them."""

import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from multiprocessing import active_children, current_process
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import latecomer
from fedcore.coordinator.events import Decided, Stepped
from fedcore.errors import ConfigError, LatecomerError, UserCodeError
from fedcore.pool import Pool
from fedcore.samples import Subset
from fedcore.user_code import Failure, last_words
from fedrun.config import parse_config
from fedrun.data import digits
from fedsim.engines.stacked.compute import Computed, Task
from fedsim.engines.stacked.stack import Stack
from fedsim.engines.stacked.worker import Reply, Share, Trial, portable
from fedsim.engines.stacked.worker_pool import LinkLostError, WorkerPool, dealt_out
from fedview.results import Results
from tests.fedsim.test_stacked import SETTINGS, WORKLOAD, told
from tests.patience import PATIENCE, until

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from fedtorch import TorchWorkload  # noqa: E402

ROOT = Path(__file__).parents[2]
SOME = (
    *("fed_avg", "momentum", "overlap_with_momentum", "decay", "top_k", "fates"),
    "availability",
)
SHARED = digits("train")
TRIED = 2  # samples of the gradient that is tried before a run


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))


def by_index(client: Any) -> Subset:
    return Subset(*SHARED, np.arange(client.index, 1200, client.count))


def of_shared_arrays(train_data: Callable[[Any], Any]) -> TorchWorkload:
    return TorchWorkload(
        model=small,
        loss=nn.CrossEntropyLoss(),
        train_data=train_data,
        test_data=lambda: digits("test"),
    )


INDEXED = of_shared_arrays(by_index)
COPIED = of_shared_arrays(lambda client: tuple(by_index(client)))


def simulated(folder: Path, workload: Any = WORKLOAD, **changes: Any) -> Results:
    engine = changes.pop("engine")
    settings = {**SETTINGS["top_k"], **changes}
    simulate = {"clients": 12, **settings.get("simulate", {}), "engine": engine}
    config = {"stop": {"versions": 12}, **settings, "simulate": simulate}
    return latecomer.run(config, workload, folder=folder)


def digests(results: Results) -> list[str]:
    return [record.digest for record in results.of(Stepped)]


def named_memory(pid: int) -> set[str]:
    """The paths of a process's shared memory and semaphores, on Linux.

    Other programs have such memory as well, which is no business of a test.
    """
    process = Path(f"/proc/{pid}")
    if not (process / "maps").is_file():
        return set()
    lines = (process / "maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in lines}
    for handle in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # it has been closed
            paths.add(str(handle.readlink()))
    return {path for path in paths if path.startswith("/dev/shm/")}


# ----------------------------------------------------------------------------- results


@pytest.mark.processes
@pytest.mark.parametrize("name", SOME)
def test_results_do_not_depend_on_the_number_of_processes(
    name: str, tmp_path: Path
) -> None:
    counts = (1, 2, 4) if name in SOME[:4] else (1, 2)
    one, *others = [
        simulated(
            tmp_path / str(count),
            engine={"processes": count},
            **{"simulate": {}, **SETTINGS[name]},
        )
        for count in counts
    ]
    for other in others:
        assert told(other) == told(one)
        ours = [(r.at, r.weight, r.loss) for r in other.of(Decided)]
        theirs = [(r.at, r.weight, r.loss) for r in one.of(Decided)]
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
        loss = one.central["loss"]
        np.testing.assert_allclose(other.central["loss"], loss, rtol=1e-5)


@pytest.mark.processes
def test_data_by_index_and_copied_data_come_to_the_same(tmp_path: Path) -> None:
    found = [
        digests(simulated(tmp_path / str(i), workload, engine={"processes": 2}))
        for i, workload in enumerate((INDEXED, COPIED))
    ]
    assert found[0] == found[1]


# ------------------------------------------------------------------------------ losses


class KillOne:
    """Kills one of the processes after so many events."""

    def __init__(self, *events: int) -> None:
        self._events, self._seen = events, 0
        self.killed: list[int] = []
        self.names: set[str] = set()

    def __call__(self, *_: Any) -> None:
        self._seen += 1
        if self._seen in self._events:
            victim = active_children()[0]
            assert victim.pid is not None
            self.names |= named_memory(victim.pid) | named_memory(os.getpid())
            os.kill(victim.pid, signal.SIGKILL)
            self.killed.append(victim.pid)


@pytest.mark.processes
@pytest.mark.parametrize("name", ["momentum", "top_k"])
def test_processes_that_are_killed_change_no_bit(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SETTINGS[name]
    simulate = {
        "clients": 12,
        **settings.get("simulate", {}),
        "engine": {"processes": 2},
    }
    config = {"stop": {"versions": 12}, **settings, "simulate": simulate}
    whole = latecomer.run(config, WORKLOAD, folder=tmp_path / "whole")
    kill, before = KillOne(3, 8), named_memory(os.getpid())
    hurt = latecomer.run(config, WORKLOAD, folder=tmp_path / "hurt", on_event=kill)
    assert len(kill.killed) == 2
    assert told(hurt) == told(whole)
    assert digests(hurt) == digests(whole)
    assert hurt.central == whole.central
    lost = [r.message for r in caplog.records if "computed again" in r.message]
    assert lost
    assert "has ended with status -9; its" in lost[0]
    assert not active_children()
    assert named_memory(os.getpid()) == before
    assert not [name for name in kill.names - before if Path(name).exists()]


def set_trap(path: Path) -> None:
    """For all processes but this one."""
    path.write_text(str(os.getpid()))


def falls_into(path: Path) -> bool:
    try:
        return path.read_text() != str(os.getpid())
    except FileNotFoundError:
        return False


def trapped(out: Any, y: Any, folder: Path = Path()) -> Any:
    float(out.detach().sum())  # where it is traced, it ends here
    if len(y) > TRIED and falls_into(folder / "kills once"):
        with suppress(FileNotFoundError):  # another one was here first
            (folder / "kills once").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    if falls_into(folder / "kills"):
        os.kill(os.getpid(), signal.SIGKILL)
    if falls_into(folder / "raises"):
        raise ValueError("no such thing")
    return nn.functional.cross_entropy(out, y)


TRAPPED = TorchWorkload(model=small, loss=trapped, train_data=by_index)
ROUNDS = {"algorithm": {"kind": "fed_avg", "buffer": 8}, "stop": {"versions": 3}}
TWO = {"processes": 2}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.processes
@pytest.mark.quick
def test_a_process_that_is_killed_while_it_computes_is_replaced(
    desk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = simulated(desk / "whole", TRAPPED, engine=TWO, **ROUNDS)
    set_trap(Path("kills once"))
    hurt = simulated(desk / "hurt", TRAPPED, engine=TWO, **ROUNDS)
    assert not Path("kills once").exists()
    assert digests(hurt) == digests(whole)
    (lost,) = [r.message for r in caplog.records if "computed again" in r.message]
    assert "its 4 tasks are computed again by another one" in lost


@pytest.mark.processes
def test_tasks_that_kill_every_process_end_the_run(desk: Path) -> None:
    set_trap(Path("kills"))
    words = "the first 3 clients cannot train: training ended its process: .* status -9"
    with pytest.raises(UserCodeError, match=words):
        simulated(desk / "run", TRAPPED, engine=TWO, **ROUNDS)
    assert not active_children()


def deadly(out: Any, y: Any) -> Any:
    if not float(y.sum()) and current_process().name != "MainProcess":
        os._exit(7)
    return nn.functional.cross_entropy(out, y)


def all_zeros(client: Any) -> tuple[Any, Any]:
    x, y = by_index(client)
    return x, y if client.index != 2 else np.zeros_like(y)


DEADLY = TorchWorkload(model=small, loss=deadly, train_data=all_zeros)


@pytest.mark.processes
def test_a_client_that_ends_its_process_ends_its_own_task_alone(desk: Path) -> None:
    more = {"algorithm": {"kind": "fed_avg", "buffer": 4}, "simulate": {"clients": 6}}
    hurt = simulated(desk / "run", DEADLY, engine=TWO, **{**ROUNDS, **more})
    assert hurt.summary["versions"] == 3
    [(name, told_)] = hurt.summary["failed"].items()
    assert name == "client-2"
    assert "training ended its process" in told_
    assert "has ended with status 7" in told_


def wide_or_narrow(client: Any) -> Any:
    """Rows of shared arrays; of client ``place``, copies of fewer columns."""
    subset = by_index(client)
    if client.index != int(client.args["place"]):
        return subset
    x, y = subset
    return x[:, :60], y


ODD_FORM = TorchWorkload(
    model=small, loss=nn.CrossEntropyLoss(), train_data=wide_or_narrow
)


@pytest.mark.processes
@pytest.mark.parametrize("place", [0, 2])
def test_data_of_another_form_fail_alone_and_the_rest_is_as_without_processes(
    desk: Path, place: int
) -> None:
    more = {"algorithm": {"kind": "fed_avg", "buffer": 4}, "stop": {"versions": 3}}
    args = {"clients": 6, "args": {"place": place}}
    hurt, one = (
        simulated(desk / name, ODD_FORM, engine=engine, simulate=args, **more)
        for name, engine in (("two", TWO), ("one", {}))
    )
    assert hurt.summary["versions"] == 3
    assert told(hurt) == told(one)
    [(name, told_)] = hurt.summary["failed"].items()
    assert name == f"client-{place}"
    assert "60 and 64x8" in told_


@pytest.mark.processes
def test_the_users_error_comes_back_with_its_traceback(desk: Path) -> None:
    set_trap(Path("raises"))
    words = "training raised ValueError: no such thing"
    with pytest.raises(UserCodeError, match=words) as raised:
        simulated(desk / "run", TRAPPED, engine=TWO, **ROUNDS)
    trace = last_words(raised.value)
    assert "in trapped" in trace
    assert 'raise ValueError("no such thing")' in trace
    assert not active_children()


@pytest.mark.processes
def test_an_interrupted_run_goes_on_to_the_last_bit(tmp_path: Path) -> None:
    def run(name: str, **more: Any) -> Results:
        config = {**SETTINGS["top_k"], "stop": {"versions": 8}}
        simulate = {**config["simulate"], "clients": 12, "engine": TWO}
        return latecomer.run(
            {**config, "simulate": simulate}, WORKLOAD, folder=tmp_path / name, **more
        )

    whole, events = run("whole"), 0

    def interrupt(*_: Any) -> None:
        nonlocal events
        events += 1
        if events == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run("parts", on_event=interrupt)
    assert not active_children()
    parts = run("parts", resume=True)
    assert told(parts) == told(whole)
    assert digests(parts) == digests(whole)


ENDS = """
import os
import signal
import sys

import numpy as np
from torch import nn
from fedtorch import TorchWorkload

ODD = 0


class Points:
    def __init__(self, which):
        self.which = which

    def __len__(self):
        return 8

    def __getitem__(self, row):
        if self.which == ODD:
            {end}
        rng = np.random.default_rng((self.which, row))
        return rng.standard_normal(4).astype(np.float32), row % 3


workload = TorchWorkload(
    model=lambda: nn.Linear(4, 3),
    loss=nn.CrossEntropyLoss(),
    train_data=lambda client: Points(client.index),
    num_workers={workers},
)
"""
FEW = """
app: ends.py:workload
algorithm: {kind: fed_buff, buffer: 2}
stop: {versions: 30}
simulate: {clients: 4, engine: {processes: 2}}
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("end", "workers", "status"),
    [
        ("os._exit(3)", 0, 3),
        ("os._exit(3)", 1, 3),
        ("os.kill(os.getpid(), signal.SIGKILL)", 0, -9),
    ],
)
def test_data_that_end_the_process_that_reads_them_are_a_failed_task(
    tmp_path: Path, end: str, workers: int, status: int
) -> None:
    (tmp_path / "ends.py").write_text(ENDS.format(end=end, workers=workers))
    (tmp_path / "fed.yaml").write_text(FEW)
    done = subprocess.run(
        [sys.executable, "-m", "fedsim", "run", "fed.yaml", "--no-report", "-o", "r"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "protos")]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    results = Results(tmp_path / "r")
    assert results.summary["versions"] == 30
    [(name, told_)] = results.summary["failed"].items()
    assert name == "client-0"
    assert f"has ended with status {status}" in told_
    assert "client-0: its trial before the run has failed: process " in done.stderr
    assert "client-0: training ended its process" in done.stderr


# ------------------------------------------------------------------------- other ends

APP = """
from multiprocessing import parent_process
from pathlib import Path
from torch import nn
from fedrun.data import digits
from fedtorch import TorchWorkload

def loss(out, y):
    float(out.detach().sum())
    if parent_process() and len(y) > 2:  # not in the trial before the run
        Path("begun").touch()
    return nn.functional.cross_entropy(out, y)

def train_data(client):
    x, y = digits("train")
    return x[client.index::client.count], y[client.index::client.count]

workload = TorchWorkload(
    model=lambda: nn.Linear(64, 10), loss=loss, train_data=train_data
)
"""
CONFIG = """
app: mine.py:workload
algorithm: {kind: fed_avg, buffer: 8}
stop: {versions: 100000}
simulate: {clients: 8, engine: {processes: 2}}
"""


@pytest.fixture
def command(desk: Path) -> "Iterator[subprocess.Popen[str]]":
    """A long run, whose processes have begun to compute."""
    Path("mine.py").write_text(APP)
    Path("fed.yaml").write_text(CONFIG)
    with subprocess.Popen(
        [sys.executable, "-m", "fedsim", "run", "fed.yaml", "--no-report"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            until(
                lambda: Path("begun").exists() or process.poll() is not None,
                "the app begins",
            )
            yield process
        finally:
            process.kill()


def family(pid: int) -> Iterator[int]:
    """A process's children, and theirs."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from family(int(child))


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="looks into /dev/shm")
def test_memory_with_a_name_is_seen_in_its_own_process_alone() -> None:
    with closing(SharedMemory(create=True, size=1)) as memory:
        path = f"/dev/shm/{memory.name}"
        assert path in named_memory(os.getpid())
        assert path not in named_memory(os.getppid())
        memory.unlink()


@pytest.mark.processes
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks into /proc")
@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_the_command(
    which: signal.Signals, command: "subprocess.Popen[str]"
) -> None:
    others = set(family(command.pid))
    assert len(others) >= 3  # the workers, and who starts them
    names = {name for pid in (command.pid, *others) for name in named_memory(pid)}
    if which is signal.SIGINT:
        os.killpg(command.pid, which)
    else:
        command.kill()
    with closing(SharedMemory(create=True, size=1)) as foreign:
        _, err = command.communicate(timeout=PATIENCE)
        until(
            lambda: not any(Path(f"/proc/{pid}").exists() for pid in others),
            "the others end",
        )
        foreign.unlink()
    assert (command.returncode == 0) == (which is signal.SIGINT), err
    assert not [name for name in names if Path(name).exists()]
    assert "leaked" not in err
    assert "process" not in err  # nobody complains of the others


def test_what_no_other_process_can_find_is_refused_in_words(tmp_path: Path) -> None:
    hidden = TorchWorkload(
        model=small, loss=nn.CrossEntropyLoss(), train_data=lambda client: None
    )
    with pytest.raises(ConfigError, match="make it a variable of a module"):
        simulated(tmp_path / "run", hidden, engine={"processes": 2})
    assert not active_children()


def test_a_workload_is_found_by_its_name_or_pickled() -> None:
    assert str(portable(WORKLOAD)).endswith(":WORKLOAD")
    plain = TorchWorkload(model=small, loss=nn.CrossEntropyLoss(), train_data=by_index)
    assert portable(plain) is plain


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"kind": "exact", "processes": 2}, "processes belongs to kind stacked"),
        ({"actors": 3}, "actors belongs to kind ray, and the kind is stacked"),
        ({"processes": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    engine: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config({"simulate": {"engine": engine}})


# ------------------------------------------------------------------------------- parts


@given(st.data(), st.integers(1, 5))
def test_every_task_is_dealt_out_once_and_fairly(data: Any, count: int) -> None:
    loads = data.draw(st.lists(st.integers(1, 20), max_size=40))
    clients = data.draw(
        st.lists(st.integers(0, 99), min_size=len(loads), max_size=len(loads))
    )
    parts = dealt_out(loads, clients, count)
    assert len(parts) == count
    assert sorted(place for part in parts for place in part) == list(range(len(loads)))
    done = [sum(loads[place] for place in part) for part in parts]
    assert max(done) <= 1.02 * sum(loads) / count + max(loads, default=0)


def test_clients_stay_where_they_are_if_that_is_fair() -> None:
    assert dealt_out([2] * 6, [0, 1, 2, 3, 4, 5], 2) == [[0, 2, 4], [1, 3, 5]]
    assert dealt_out([1] * 4, [0, 2, 4, 6], 2) == [[0, 1], [2, 3]]


class Fake:
    """A worker that echoes its tasks, and is lost when it is told so."""

    lost: int = 0
    deadly: frozenset[int] = frozenset()  # clients whose tasks end a worker
    most: int = 8  # tasks of a share that a worker outlives
    shares: Sequence[Share] = ()

    def send(self, share: Share | Trial) -> None:
        assert isinstance(share, Share)
        self.share = share
        Fake.shares = [*Fake.shares, share]

    def receive(self) -> Reply:
        if Fake.lost:
            Fake.lost -= 1
            raise LinkLostError("it is lost")
        clients = [task.client for task in self.share.tasks]
        if Fake.deadly.intersection(clients) or len(clients) > Fake.most:
            raise LinkLostError("it has ended")
        places: Any = [(task.client, 0) for task in self.share.tasks]
        return Computed(places, self.share.most)

    def close(self) -> None:
        """Nothing to end."""


def echoed(found: Computed) -> list[Any]:
    return [client for client, _ in found.places]


@pytest.fixture
def pool() -> Pool:
    pool, x, y = Pool(), np.arange(20.0), np.arange(20)
    for client in range(8):
        pool.add(client, Subset(x, y, np.array([client, client + 1])))
    Fake.lost, Fake.shares, Fake.deadly, Fake.most = 0, (), frozenset(), 8
    return pool


TASKS = [Task(client, 1, client // 4, 2) for client in range(8)]
MODELS = {(version, 0): np.full(3, version, np.float32) for version in (0, 1)}


def test_workers_are_handed_what_they_do_not_have(pool: Pool) -> None:
    workers = WorkerPool(Fake, 2, pool)
    found = workers.compute(TASKS, MODELS, 9)
    assert echoed(found) == list(range(8))
    first, _ = Fake.shares
    assert [task.client for task in first.tasks] == [0, 2, 4, 6]
    assert set(first.samples) == {0, 2, 4, 6}
    assert first.samples[2].tolist() == [2, 3]
    assert set(first.models) == {(0, 0), (1, 0)}
    assert first.arrays is not None
    workers.compute(TASKS[4:], MODELS, 9)
    third, _ = Fake.shares[2:]
    assert (third.samples, third.models, third.arrays) == ({}, {}, None)
    workers.compute(TASKS, MODELS, 9)
    assert set(Fake.shares[4].models) == {(0, 0)}  # the other one it has used last


def test_a_fresh_worker_is_handed_everything(pool: Pool) -> None:
    workers = WorkerPool(Fake, 1, pool)
    workers.compute(TASKS, MODELS, 9)
    Fake.lost = 1
    found = workers.compute(TASKS, MODELS, 9)
    assert echoed(found) == list(range(8))
    assert len(Fake.shares) == 3
    assert (Fake.shares[1].samples, Fake.shares[1].most) == ({}, 9)
    assert set(Fake.shares[2].samples) == set(range(8))
    assert found.most == 9  # it may have been an accident


def test_tasks_that_do_not_fit_into_memory_together_are_halved(pool: Pool) -> None:
    workers = WorkerPool(Fake, 1, pool)
    Fake.most = 3
    found = workers.compute(TASKS, MODELS, 9)
    assert echoed(found) == list(range(8))
    assert found.most == 2


def test_a_task_that_ends_every_worker_fails_alone(pool: Pool) -> None:
    workers = WorkerPool(Fake, 1, pool)
    Fake.deadly = frozenset({0, 5})
    found = workers.compute(TASKS, MODELS, 9)
    for client, (place, _) in enumerate(found.places):
        if client in Fake.deadly:
            assert isinstance(place, Stack)
            assert place.failure is not None
            words = str(place.failure.error())
            assert words.startswith("training ended its process: it has ended")
        else:
            assert place == client  # type: ignore[comparison-overlap]
    assert found.most == 9  # it was not for want of memory


def test_who_loses_one_worker_after_the_other_gives_up(pool: Pool) -> None:
    workers = WorkerPool(Fake, 2, pool)
    Fake.lost = 3
    with pytest.raises(LatecomerError, match="before any has answered"):
        workers.compute(TASKS, MODELS, 9)
    Fake.deadly = frozenset(range(8))
    with pytest.raises(UserCodeError, match="the first 3 clients cannot train"):
        workers.compute(TASKS, MODELS, 9)


def test_arrays_of_a_data_set_that_is_too_large_are_not_handed_over(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.engines.stacked.worker_pool._WHOLE_BYTES", 100)
    WorkerPool(Fake, 1, pool).compute(TASKS, MODELS, 9)
    x, y = Fake.shares[0].samples[3]
    assert (x.tolist(), y.tolist()) == ([3.0, 4.0], [3, 4])


def test_errors_keep_their_kind_and_their_traceback() -> None:
    def raised(error: Exception) -> Failure:
        try:
            try:
                raise KeyError("inner")
            except KeyError as cause:
                raise error from cause
        except Exception as found:  # noqa: BLE001 -- of any kind
            return pickle.loads(pickle.dumps(Failure.of(found)))  # noqa: S301 -- ours

    users = raised(UserCodeError("training raised KeyError")).error()
    assert isinstance(users, UserCodeError)
    assert str(users) == "training raised KeyError"
    assert 'raise KeyError("inner")' in last_words(users)
    ours = raised(ZeroDivisionError("of ours")).error()
    assert type(ours) is LatecomerError
    assert str(ours) == "ZeroDivisionError: of ours"


# ------------------------------------------------------------------------------ memory


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't allocate memory")]
)
def test_a_stack_that_does_not_fit_is_halved_and_that_is_said_once(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = simulated(tmp_path / "whole", engine={})
    from fedtorch.stacked.model import Stacked

    gradient, sizes = Stacked.gradient, list[int]()

    def narrow(self: Stacked, w_ND: Any, *others: Any) -> Any:
        sizes.append(len(w_ND))
        if len(w_ND) > 3:
            raise error
        return gradient(self, w_ND, *others)

    monkeypatch.setattr(Stacked, "gradient", narrow)
    monkeypatch.setattr(Stacked, "descend", lambda self, steps: None)
    halved = simulated(tmp_path / "halved", engine={})
    assert told(halved) == told(whole)
    assert max(sizes) == 12
    assert sum(size > 3 for size in sizes) == 2  # twelve, and six
    said = [r for r in caplog.records if "did not fit into memory" in r.message]
    assert [r.levelno for r in said] == [logging.WARNING]
    assert "at most 3 clients" in said[0].message


def test_the_way_to_gradients_is_not_given_up_for_want_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fedtorch.stacked.model import Stacked

    stacked, run = WORKLOAD.flat().stack(), Stacked._run
    how, count = stacked.how, 4
    w_ND = np.zeros((count, 610), np.float32)
    x_NBF, y_NB = np.ones((count, 2, 64), np.float32), np.zeros((count, 2), np.int64)

    def full(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(Stacked, "_run", full)
    with pytest.raises(MemoryError):
        stacked.gradient(w_ND, x_NBF, y_NB, np.full(count, 2))
    monkeypatch.setattr(Stacked, "_run", run)
    stacked.gradient(w_ND, x_NBF, y_NB, np.full(count, 2))
    assert stacked.how == how


def test_one_client_that_does_not_fit_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedtorch.stacked.model import Stacked

    def full(*_: Any) -> Any:
        raise MemoryError("all is full")

    monkeypatch.setattr(Stacked, "descend", full)
    with pytest.raises(UserCodeError, match="all is full"):
        simulated(tmp_path / "run", engine={})


def exploding(client: Any) -> Any:
    x, y = digits("train")
    rows = slice(client.index, None, client.count)
    return x[rows] * (1e30 if client.index == 3 else 1), y[rows]


EXPLODING = TorchWorkload(model=small, loss=nn.CrossEntropyLoss(), train_data=exploding)


@pytest.mark.processes
def test_snapshots_know_of_updates_that_workers_did_not_send(tmp_path: Path) -> None:
    engine = {"processes": 2, "snapshot_seconds": 1e-9}
    results = latecomer.run(
        {
            "algorithm": {
                "kind": "fed_buff",
                "buffer": 2,
                "uplink": {"kind": "error_feedback"},
            },
            "simulate": {
                "clients": 8,
                "speed": {"kind": "log_normal", "sigma": 1.5},
                "engine": engine,
            },
            "stop": {"versions": 12},
        },
        EXPLODING,
        folder=tmp_path / "run",
    )
    assert len([*results.of(Stepped)]) == 12
