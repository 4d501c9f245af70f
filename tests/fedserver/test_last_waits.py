"""What a server waits for once its run has ended, and what ends the waiting."""

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fedwire.v1 import federation_pb2 as pb

import fedserver.children
import fedserver.server
from fedcore.coordinator.events import Evaluated, Leased
from fedserver.children import keep_evaluating
from fedserver.server import EvaluationTimes
from tests.fedserver.test_ends import beating, stalled_upload
from tests.peer import CALL, Peer, packed
from tests.served import ones, served, settings, until

GOOD = packed(ones())
LONG = 600.0


def ending(**timeouts: float) -> dict[str, Any]:
    """A run of one version, whose server could wait for very long."""
    waits = {"lease": LONG, "linger": 0.5, "lost": 0.3, "heartbeat": 0.1}
    return {"stop": {"versions": 1}, "timeouts": {**waits, **timeouts}}


# ------------------------------------------------------------------ clients, the server


def test_a_silent_client_is_not_waited_for_although_its_connection_stands(
    tmp_path: Path,
) -> None:
    closed = threading.Event()
    with served(tmp_path, **ending()) as server:
        with Peer(server.address, "ann") as ann, Peer(server.address, "bob") as bob:
            bob.pull()
            suspended = bob.attend(1, beating(closed, every=LONG))
            until(lambda: server.server._sessions._sessions, "bob attends")
            ann.pull()
            ann.push(GOOD)
            assert ann.pull().done
            until(lambda: server.ended, "the server ends", 10.0)
            closed.set()
            suspended.cancel()
        assert server.error is None


def test_a_client_that_is_there_and_trains_is_waited_for(tmp_path: Path) -> None:
    closed = threading.Event()
    with served(tmp_path, **ending()) as server:
        with Peer(server.address, "ann") as ann, Peer(server.address, "bob") as bob:
            bob.pull()
            notices = bob.attend(1, beating(closed))
            ann.pull()
            ann.push(GOOD)
            assert next(notices).kind == pb.Notice.KIND_ENDED
            assert bob.push(GOOD).answer == pb.ANSWER_REJECTED_CLOSED
            assert not server.ended
            closed.set()
        server.wait()


def test_who_attends_is_told_that_the_run_has_ended_also_when_it_comes_later(
    tmp_path: Path,
) -> None:
    closed = threading.Event()
    with served(tmp_path, **ending(linger=LONG)) as server:
        with Peer(server.address, "ann") as ann, Peer(server.address, "bob") as bob:
            early = bob.attend(1, beating(closed))
            until(lambda: server.server._sessions.attending, "bob attends")
            ann.pull()
            ann.push(GOOD)
            late = ann.attend(1, beating(closed))
            for notices in early, late:
                notice = next(notices)
                assert notice.kind == pb.Notice.KIND_ENDED
                assert notice.text == "1 versions"
            closed.set()
        server.stop()


def test_an_evaluator_that_does_not_come_to_an_end_is_not_waited_for_like_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fedserver.server, "FIRST", 0.2)
    closed = threading.Event()
    with served(tmp_path, **ending()) as server:
        judge = Peer(server.operator_socket, "judge")
        judge.enrol(role=pb.ROLE_EVALUATOR)
        attending = judge.attend(1, beating(closed))
        first = judge.pull()
        model = pb.ModelName(epoch=judge.epoch, version=first.version)
        report = pb.ReportRequest(key=judge.key, model=model, values={"accuracy": 0.5})
        judge.stub.report(report, timeout=CALL)
        with Peer(server.address, "ann") as ann:
            ann.pull()
            ann.push(GOOD)
            assert ann.pull().done
        last = judge.pull()
        assert (last.done, last.task) == (True, pb.TASK_KIND_EVALUATE)
        until(lambda: server.ended, "the server ends", 20.0)
        closed.set()
        attending.cancel()
        judge.channel.close()


def test_an_evaluator_that_hangs_in_its_first_evaluation_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fedserver.server, "FIRST", 0.2)
    closed = threading.Event()
    with served(tmp_path, **ending(linger=0.2)) as server:
        server.server.evaluator_starts = lambda: True  # its process lives
        judge = Peer(server.operator_socket, "judge")
        judge.enrol(role=pb.ROLE_EVALUATOR)
        attending = judge.attend(1, beating(closed))
        judge.pull()
        until(lambda: server.server._sessions.attending, "the evaluator attends")
        with Peer(server.address, "ann") as ann:
            ann.pull()
            ann.push(GOOD)
            assert ann.pull().done
        until(lambda: server.ended, "the server ends", 20.0)
        closed.set()
        attending.cancel()
        judge.channel.close()
    logged = [record.getMessage() for record in caplog.records]
    (said,) = [line for line in logged if "judge" in line]
    last = tmp_path / "run" / "models" / "last.safetensors"
    assert last.is_file()
    assert f"fedclient evaluate-file --app APP {last}" in said


def test_an_evaluator_that_pulls_before_its_session_begins_is_waited_for(
    tmp_path: Path,
) -> None:
    closed = threading.Event()
    with served(tmp_path, **ending(lost=LONG)) as server:
        server.server.evaluator_starts = lambda: True  # its process lives
        with Peer(server.address, "ann") as ann:
            ann.pull()
            ann.push(GOOD)
            assert ann.pull().done
        judge = Peer(server.operator_socket, "judge")
        judge.enrol(role=pb.ROLE_EVALUATOR)
        last = judge.pull()
        assert (last.done, last.task) == (True, pb.TASK_KIND_EVALUATE)
        time.sleep(1.0)  # its thread of heartbeats gets no turn
        attending = judge.attend(1, beating(closed))
        model = pb.ModelName(epoch=judge.epoch, version=last.version)
        report = pb.ReportRequest(key=judge.key, model=model, values={"accuracy": 0.5})
        judge.stub.report(report, timeout=CALL)
        closed.set()
        attending.cancel()
        judge.channel.close()
        until(lambda: server.ended, "the server ends", 20.0)


def test_the_last_evaluation_may_take_ten_times_the_longest_before_it() -> None:
    times = EvaluationTimes()
    lease: dict[str, Any] = {"cid": "judge", "task": "evaluate", "patch": "full"}
    report: dict[str, Any] = {"cid": "judge", "values": {}, "samples": 1}
    assert times.patience(0.0, 600.0) == 30.0
    assert times.patience(10.0, 600.0) == 30.0
    assert times.patience(60.0, 600.0) == 180.0
    for version, (began, ended) in enumerate(
        [(10.0, 12.0), (20.0, 25.0), (30.0, 31.0)]
    ):
        times.observe(Leased(at=began, version=version, nbytes=0, **lease))
        times.observe(Evaluated(at=ended, version=version, **report))
    assert times.patience(10.0, 600.0) == 50.0
    assert times.patience(10.0, 40.0) == 40.0
    assert times.patience(10.0, 5.0) == 10.0


def test_a_second_signal_cuts_the_time_for_open_uploads_short(tmp_path: Path) -> None:
    with served(tmp_path, timeouts={"drain": LONG}) as server:
        with stalled_upload(server) as push:
            interrupt = server.server.interrupt
            server._loop.call_soon_threadsafe(interrupt)
            until(server.progress.not_ready, "it drains")
            assert not server.ended
            server._loop.call_soon_threadsafe(interrupt)
            until(lambda: server.ended, "the server ends", 10.0)
            assert push.exception() is not None
        assert server.error is None


# ------------------------------------------------------------------------ the evaluator

CHILD = """
import os, signal, subprocess, sys, time
with open({log!r}, "a") as file:
    file.write("x")
{body}
"""


class Child:
    """A process in the evaluator's place, which counts its starts."""

    def __init__(self, folder: Path, body: str) -> None:
        self.log, self.script = folder / "starts", folder / "child.py"
        self.script.write_text(CHILD.format(log=str(self.log), body=body))

    @property
    def starts(self) -> int:
        return len(self.log.read_text()) if self.log.exists() else 0


@pytest.fixture
def keeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Keeps such a process running; returns it, and what keeps it."""
    config = settings(tmp_path, app="app:workload")

    def keep(body: str, over: asyncio.Event) -> tuple[Child, "asyncio.Task[None]"]:
        child = Child(tmp_path, body)
        command = [sys.executable, str(child.script)]
        monkeypatch.setattr(fedserver.children, "_fedclient", lambda: command)
        keeps = keep_evaluating(config, tmp_path, "host", over)
        return child, asyncio.create_task(keeps)

    return keep


async def grown(child: Child, count: int) -> None:
    await asyncio.to_thread(until, lambda: child.starts >= count, "it starts")


def run(main: Any) -> None:
    asyncio.run(asyncio.wait_for(main, 20.0))


def test_an_evaluator_that_dies_after_the_end_starts_once_more_and_never_again(
    keeping: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        over = asyncio.Event()
        child, keeps = keeping("time.sleep(0.2); sys.exit(4)", over)
        await grown(child, 1)
        over.set()  # it evaluates the last version, and dies of that
        await keeps
        assert child.starts == 2

    run(main())
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "the evaluator ended, and starts again: its status is 4",
        "the evaluator ended, and does not start again: its status is 4",
    ]


def test_an_evaluator_that_is_through_does_not_start_again(
    keeping: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        child, keeps = keeping("sys.exit(0)", asyncio.Event())
        await keeps
        assert child.starts == 1

    run(main())
    assert not caplog.records


def test_each_start_is_told_before_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, told = Child(tmp_path, "sys.exit(4)"), list[int]()
    command = [sys.executable, str(child.script)]
    monkeypatch.setattr(fedserver.children, "_fedclient", lambda: command)
    monkeypatch.setattr(fedserver.children, "_RESTART_SECONDS", 0.01)

    async def main() -> None:
        over = asyncio.Event()

        def starts() -> None:
            told.append(child.starts)
            if len(told) == 2:
                over.set()

        config = settings(tmp_path, app="app:workload")
        await keep_evaluating(config, tmp_path, "host", over, starts)

    run(main())
    assert told == [*range(child.starts)]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="it counts there")
def test_starts_leave_no_descriptors_behind(keeping: Any) -> None:
    async def main() -> None:
        over = asyncio.Event()
        over.set()
        for _ in range(2):
            before = {*os.listdir("/proc/self/fd")}
            _, keeps = keeping("sys.exit(4)", over)
            await keeps
            until(lambda: {*os.listdir("/proc/self/fd")} <= before, "all are closed")  # noqa: B023

    run(main())


def test_the_end_of_the_run_ends_the_pause_before_another_start(keeping: Any) -> None:
    async def main() -> None:
        over = asyncio.Event()
        child, keeps = keeping("sys.exit(4)", over)
        await grown(child, 1)
        await asyncio.sleep(0.3)
        assert child.starts == 1  # five seconds are not over
        over.set()
        await keeps
        assert child.starts == 2

    run(main())


def test_a_dead_evaluator_is_noticed_although_what_it_started_lives_on(
    keeping: Any, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    body = (
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pid)!r}, 'w').write(str(p.pid))\n"
        "print('error: gone', file=sys.stderr); os.kill(os.getpid(), 9)"
    )

    async def main() -> None:
        over = asyncio.Event()
        over.set()
        child, keeps = keeping(body, over)
        await keeps
        assert child.starts == 1

    try:
        run(main())
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("hurries", [False, True])
def test_an_evaluator_that_hears_no_signal_is_killed(
    keeping: Any, monkeypatch: pytest.MonkeyPatch, hurries: bool
) -> None:
    monkeypatch.setattr(fedserver.children, "_ENDS", LONG if hurries else 0.2)
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"

    async def main() -> None:
        child, keeps = keeping(deaf, asyncio.Event())
        await grown(child, 1)
        await asyncio.sleep(0.1)
        keeps.cancel()
        if hurries:
            await asyncio.sleep(0.1)
            assert not keeps.done()
            keeps.cancel()
        await asyncio.wait([keeps])

    run(main())
