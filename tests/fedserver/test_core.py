"""Whatever happens on the core thread ends one call, and never the server."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from fedwire.frames import read_reply
from fedwire.service import PROTOCOLS
from fedwire.v1 import federation_pb2 as pb

from fedcore.aggregators import Contribution, weighted_mean
from fedcore.coordinator import Coordinator, Rounds
from fedcore.coordinator.events import (
    ClientEnrolled,
    Decided,
    Leased,
    ServerStarted,
    ServerStopped,
)
from fedcore.errors import ConfigError, HandlingError, JournalError
from fedcore.payloads import decode
from fedcore.protocol import Verdict
from fedcore.typing import Vector
from fedrun.journal import verify
from fedrun.journal.journal import Journal
from fedrun.json_lines import present_ids
from fedserver import core
from fedview.report.history import downtimes
from fedview.results import Results
from tests.fedrun.journal.runs import records
from tests.fedserver.disk import Disk
from tests.fedserver.honest import refused, still_serves
from tests.peer import CALL, Peer, key_of, packed
from tests.served import Served, ones, served, settings, until

POISON = -7.0


@pytest.mark.parametrize("method", ["enrol", "leave", "report"])
def test_a_call_that_is_cancelled_before_its_answer_harms_nobody(
    server: Served, method: str
) -> None:
    with Peer(server.address) as peer:
        peer.pull()
        server.run.coordinator.evaluations.ask(peer.cid, 0)
        disk = Disk(server)
        disk.stop()
        model = pb.ModelName(epoch=peer.epoch, version=0)
        request = {
            "enrol": pb.EnrolRequest(
                protocols=PROTOCOLS,
                key=key_of("other"),
                owner=key_of("other"),
                spec=_spec(server),
            ),
            "leave": pb.LeaveRequest(key=peer.key),
            "report": pb.ReportRequest(key=peer.key, model=model, values={"loss": 1.0}),
        }[method]
        call = getattr(peer.stub, method).future(request, timeout=CALL)
        disk.until_it_waits()
        calls = len(asyncio.all_tasks(server._loop))
        call.cancel()
        until(lambda: len(asyncio.all_tasks(server._loop)) < calls, "it is cancelled")
        disk.go()
        still_serves(server)


def _spec(server: Served) -> str:
    return server.run.coordinator.algorithm.spec.to_json()


# ------------------------------------------------------------- what raises in handling


@pytest.fixture(params=["a snapshot is not due", "a snapshot is due"])
def journal(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Settings of a journal, where records wait that no answer rests on."""
    monkeypatch.setattr(core, "IDLE_SECONDS", 3600.0)
    return {"snapshot_records": 1} if "not" not in request.param else {}


@pytest.fixture
def mistaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: dict[str, Any]
) -> Iterator[Served]:
    """A server whose aggregator raises at some updates, when it is half through."""

    def accumulate(sum_D: Vector, update: Contribution) -> Vector:
        if np.any(decode(update.payload) == POISON):
            sum_D[:50] += 1
            raise ZeroDivisionError("the aggregator divides by zero")
        return usual(sum_D, update)

    usual = weighted_mean._accumulate
    monkeypatch.setattr(weighted_mean, "_accumulate", accumulate)
    with served(tmp_path, algorithm={"buffer": 3}, journal=journal) as running:
        yield running


def poison() -> bytes:
    """An update at which the aggregator raises."""
    return packed(np.full(100, POISON, np.float32))


def test_an_update_that_raises_is_put_aside_and_leaves_nothing_behind(
    mistaken: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with Peer(mistaken.address) as peer, Peer(mistaken.address, "other") as other:
        peer.pull()
        assert peer.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
        other.pull()
        reply = other.push(poison())
        assert reply.answer == pb.ANSWER_REJECTED_MALFORMED
        assert "ZeroDivisionError: the aggregator divides by zero" in reply.reason
        assert other.push(poison(), seq=1) == reply  # and is not judged again
        assert other.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
        assert peer.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
        until(lambda: mistaken.state.version == 1, "a version is made")
        assert (mistaken.state.exact_D == -ones()).all()
    assert "UpdatePushed cannot be handled" in caplog.text
    assert "Traceback" in caplog.text
    mistaken.stop()
    run = Journal.open(mistaken.folder / "run")
    [put_aside] = [
        record
        for _, record in run.entries()
        if isinstance(record, Decided) and record.verdict is not Verdict.ACCEPTED
    ]
    assert put_aside.payload == poison()
    assert verify(run).accepted == 3
    run.close()


def test_a_version_that_raises_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: dict[str, Any]
) -> None:
    def message(rounds: Rounds, gap: Any) -> Any:
        if once:
            raise once.pop()
        return usual(rounds, gap)

    usual, once = Rounds._message, [ZeroDivisionError("the codec divides by zero")]
    monkeypatch.setattr(Rounds, "_message", message)
    algorithm = {"buffer": 2, "server": {"kind": "momentum"}}
    with (
        served(tmp_path, algorithm=algorithm, journal=journal) as server,
        Peer(server.address) as peer,
        Peer(server.address, "other") as other,
    ):
        for each in (peer, other):
            each.pull()
        assert peer.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
        assert other.push(packed(ones())).answer == pb.ANSWER_REJECTED_MALFORMED
        assert server.state.count == 1
        assert (server.state.exact_D == 0).all()
        other.pull()
        assert other.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
        until(lambda: server.state.version == 1, "a version is made")
        assert (server.state.exact_D == -ones()).all()
    run = Journal.open(tmp_path / "run")
    assert verify(run).accepted == 2
    run.close()


def test_who_waits_for_work_is_told_to_ask_again(tmp_path: Path) -> None:
    with raising("_evaluate"), served(tmp_path, algorithm={"min_clients": 9}) as server:
        with Peer(server.address) as peer, Peer(server.address, "other") as other:
            request = pb.PullRequest(key=peer.key, epoch=peer.epoch)
            waiting = peer.stub.pull(request, timeout=CALL)
            until(
                lambda: server.run.coordinator.rounds.leases.waiting, "the pull waits"
            )
            model = pb.ModelName(epoch=other.epoch, version=0)
            report = pb.ReportRequest(key=other.key, model=model, values={"loss": 1.0})
            with refused("INTERNAL", "cannot handle this: KeyError: 'a mistake'"):
                other.stub.report(report, timeout=CALL)
            assert read_reply(next(waiting)).refused == pb.ANSWER_RETRY
        assert server.run.coordinator.rounds.leases.waiting == {}


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("_enrol", lambda peer: peer.enrol(key=key_of("another"), name="another")),
        ("_leave", lambda peer: peer.stub.leave(pb.LeaveRequest(key=peer.key))),
        ("_pull", lambda peer: peer.pull()),
        ("_push", lambda peer: peer.push(packed(ones()), epoch=1)),
    ],
)
def test_a_call_that_raises_is_answered_and_changes_nothing(
    tmp_path: Path, method: str, call: Callable[[Peer], Any]
) -> None:
    with served(tmp_path) as server, Peer(server.address) as peer:
        before = server.state.dump()[0]
        with raising(method), refused("INTERNAL", "KeyError: 'a mistake'"):
            call(peer)
        after, times = server.state.dump()[0], {"at": 0, "started": 0}
        assert {**after, **times} == {**before, **times}
        still_serves(server)


def test_the_log_says_of_whom_a_call_raised(tmp_path: Path) -> None:
    class Ids(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "cannot be handled" in record.getMessage():
                found.append(present_ids())

    found, handler = list[dict[str, Any]](), Ids()
    logging.getLogger("fedserver.core").addHandler(handler)
    try:
        with served(tmp_path) as server, Peer(server.address) as peer:
            with raising("_push"), refused("INTERNAL", "a mistake"):
                peer.push(packed(ones()), epoch=1)
            with raising("_pull"), refused("INTERNAL", "a mistake"):
                peer.pull()
            [cid] = server.state.clients
    finally:
        logging.getLogger("fedserver.core").removeHandler(handler)
    assert [(ids["cid"], ids.get("seq")) for ids in found] == [(cid, 1), (cid, None)]


def test_an_event_to_which_somebody_objects_is_not_handled(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        core = server.server._core
        asked = core.ask(lambda state: "done", unless=lambda state: "not now")
        future = asyncio.run_coroutine_threadsafe(asked, core._loop)
        with pytest.raises(ConfigError, match="not now"):
            future.result(CALL)
        assert core.lag == (0, 0.0)


def test_timers_of_the_coordinator_before_do_not_fire(tmp_path: Path) -> None:
    algorithm = {"min_clients": 9}
    with (
        served(tmp_path, algorithm=algorithm) as server,
        Peer(server.address) as peer,
    ):
        waiting = peer.stub.pull(pb.PullRequest(key=peer.key, epoch=peer.epoch))
        until(lambda: server.run.coordinator.rounds.leases.waiting, "the pull waits")
        until(lambda: server.server._timers, "it would be answered after a while")
        with raising("_leave"), refused("INTERNAL", "a mistake"):
            peer.stub.leave(pb.LeaveRequest(key=peer.key))
        assert read_reply(next(waiting)).refused == pb.ANSWER_RETRY
        assert server.server._timers == {}


def test_timers_of_the_coordinator_after_do_fire(tmp_path: Path) -> None:
    algorithm, timeouts = {"min_clients": 9}, {"hold": 0.2}
    with (
        served(tmp_path, algorithm=algorithm, timeouts=timeouts) as server,
        Peer(server.address) as peer,
    ):
        for _ in range(2):
            with raising("_leave"), refused("INTERNAL", "a mistake"):
                peer.stub.leave(pb.LeaveRequest(key=peer.key))
        assert not peer.pull().refused  # it is not held for ever
        assert server.run.coordinator.rounds.leases.waiting == {}


def test_a_run_that_has_ended_ends_once(tmp_path: Path) -> None:
    timeouts = {"linger": 20.0, "drain": 1.0}
    with (
        served(tmp_path, stop={"versions": 1}, timeouts=timeouts) as server,
        Peer(server.address) as peer,
        Peer(server.address, "other") as other,
    ):
        peer.pull()
        peer.push(packed(ones()))
        until(lambda: server.state.closed, "the run has ended")
        with raising("_leave"), refused("INTERNAL", "a mistake"):
            peer.stub.leave(pb.LeaveRequest(key=peer.key))
        for each in (peer, other):
            assert each.pull().done
        server.wait()
        assert server.error is None
        assert server.server.ended == "1 versions"


def test_what_watches_may_raise(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Any) -> None:
        raise ValueError("a broken callback")

    server.progress.listeners.append(fail)
    still_serves(server)
    assert "what watches the records raised" in caplog.text
    assert "a broken callback" in caplog.text


def asked(server: Served, question: Callable[[Coordinator], Any]) -> Any:
    """The answer of the core thread."""
    asking = server.server._core.ask(question)
    return asyncio.run_coroutine_threadsafe(asking, server._loop).result(CALL)


def test_a_question_that_raises_is_answered(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Coordinator) -> None:
        raise ValueError("x" * 1000)

    with pytest.raises(HandlingError) as caught:
        asked(server, fail)
    known = "the server cannot handle this: "
    assert str(caught.value) == known + f"ValueError: {'x' * 1000}"[:200]
    assert isinstance(caught.value.__cause__, ValueError)
    assert "a question cannot be answered" in caplog.text
    assert asked(server, lambda coordinator: coordinator.state.version) == 0
    still_serves(server)


def test_an_update_that_cannot_be_put_aside_is_answered_and_changes_nothing(
    mistaken: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Coordinator, *_: Any) -> None:
        self.state.clients.clear()
        raise KeyError("another mistake")

    with Peer(mistaken.address) as peer:
        peer.pull()
        with monkeypatch.context() as broken:
            broken.setattr(Coordinator, "quarantine", fail)
            with refused("INTERNAL", "this: ZeroDivisionError: the aggregator"):
                peer.push(poison())
        assert "the update cannot be put aside either" in caplog.text
        for _ in range(3):
            assert peer.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
        until(lambda: mistaken.state.version == 1, "a version is made")
        assert (mistaken.state.exact_D == -ones()).all()


# ---------------------------------------------------------------------- the queue


def test_what_piled_up_is_written_together(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "MOST_AT_ONCE", 3)
    disk = Disk(server)
    sizes: list[int] = []
    append = disk.append

    def noting(records: Any, *facts: Any) -> int:
        sizes.append(len(records))
        return append(records, *facts)

    monkeypatch.setattr(disk, "append", noting)
    disk.stop()
    for number in range(5):
        cid = f"client {number}"
        server.server._core.submit(
            ClientEnrolled(at=server.server._core.now(), cid=cid, name=cid)
        )
        if not number:
            disk.until_it_waits()
    disk.go()
    until(lambda: sum(sizes) == 5, "all are written")
    assert sizes == [1, 3, 1]


def test_records_that_only_tell_the_story_wait_while_there_is_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "IDLE_SECONDS", 3600.0)
    with served(tmp_path) as server, Peer(server.address) as peer:
        before = server.run.journal.store.last
        peer.pull()
        assert asked(server, lambda _: server.run.journal.store.last) == before
        server.stop()
        assert leases(server) == 1  # but not beyond the end


def test_records_that_only_tell_the_story_are_written_when_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "IDLE_SECONDS", 0.01)
    with served(tmp_path) as server, Peer(server.address) as peer:
        before = server.run.journal.store.last
        peer.pull()
        until(lambda: server.run.journal.store.last == before + 1, "it is written")


def test_what_was_told_before_a_mistake_is_still_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "IDLE_SECONDS", 3600.0)
    with served(tmp_path) as server, Peer(server.address) as peer:
        peer.pull()
        before = server.run.journal.store.last
        with raising("_leave"), refused("INTERNAL", "a mistake"):
            peer.stub.leave(pb.LeaveRequest(key=peer.key))
        assert server.run.journal.store.last == before + 1
        server.stop()
        assert leases(server) == 1


def test_the_journal_says_when_a_server_served_the_run(tmp_path: Path) -> None:
    server = Served(tmp_path, settings(tmp_path))
    with server:
        pass
    with server:
        pass
    kinds = [type(record) for record in records(tmp_path / "run")]
    assert kinds[-4:] == 2 * [ServerStarted, ServerStopped]
    (gap,) = downtimes(Results(tmp_path / "run"))
    assert gap.how == "stopped"
    assert gap.start < gap.end


def leases(server: Served) -> int:
    """How many are on disk."""
    kinds = [type(record) for record in records(server.folder / "run")]
    return kinds.count(Leased)


def test_where_the_journal_cannot_be_read_again_the_server_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Served(tmp_path, settings(tmp_path))
    with server, Peer(server.address) as peer:

        def unreadable(_: Journal) -> Any:
            raise JournalError("the disk is gone")

        monkeypatch.setattr(core, "recover", unreadable)
        with raising("_leave"), pytest.raises(grpc.RpcError):
            peer.stub.leave(pb.LeaveRequest(key=peer.key), timeout=CALL)
        server.wait()
    assert isinstance(server.error, JournalError)


@contextmanager
def raising(method: str) -> Iterator[None]:
    """A mistake in one of the coordinator's methods, behind what it has changed."""

    def fail(self: Coordinator, *_: Any) -> None:
        self.state.exact_D += 1
        self.state.clients.clear()
        raise KeyError("a mistake")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Coordinator, method, fail)
        yield
