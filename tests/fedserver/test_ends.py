"""How a run and its server end, and what clients see of it."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from fedwire.frames import chunk_frames, header_frame, read_reply
from fedwire.v1 import federation_pb2 as pb
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fedcore.errors import UnavailableError
from fedrun.cli.exit_codes import exit_code
from fedserver.operator.remote import operate
from tests.fedserver.honest import still_serves
from tests.peer import CALL, Peer, packed
from tests.served import Served, ones, served, settings, until

GOOD = packed(ones())


def stopping(server: Served) -> threading.Thread:
    """The server is told to stop, and may take its time."""
    thread = threading.Thread(target=server.stop)
    thread.start()
    return thread


def beating(closed: threading.Event, every: float = 0.05) -> Iterator[pb.Beat]:
    """Heartbeats until the test closes them."""
    while not closed.wait(every):
        yield pb.Beat()


def test_a_stopped_server_goes_on_where_it_was(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path))
    with run:
        still_serves(run)
        before = run.state.exact_D.tobytes(), run.state.epoch, run.state.version
    with run:
        after = run.state.exact_D.tobytes(), run.state.epoch, run.state.version
        assert after == before
        assert run.run.recovered == 0  # a snapshot holds it all
        still_serves(run)


def test_an_open_upload_is_finished_before_the_server_ends(server: Served) -> None:
    goes_on = threading.Event()
    with Peer(server.address) as peer:
        peer.pull()
        notices = peer.attend(1, beating(goes_on))
        header = header_frame(peer.header(GOOD))

        def frames() -> Iterator[bytes]:
            yield header
            goes_on.wait(CALL)
            yield from chunk_frames([GOOD])

        push = peer.stub.push.future(frames(), timeout=CALL)
        until(lambda: server.server._service.pushes._uploads._open, "it has begun")
        stop = stopping(server)
        notice = next(notices)
        assert notice.kind == pb.Notice.KIND_DRAINING
        assert notice.text == "the server is about to stop"
        goes_on.set()
        assert push.result().answer == pb.ANSWER_ACCEPTED
        stop.join()
    with server:
        assert server.state.version == 1


@contextmanager
def stalled_upload(server: Served) -> Iterator[Any]:
    """An update of which nothing but the header comes while the block lasts."""
    never = threading.Event()
    with Peer(server.address) as peer:
        peer.pull()
        header = header_frame(peer.header(GOOD))

        def frames() -> Iterator[bytes]:
            yield header
            never.wait(CALL)

        push = peer.stub.push.future(frames(), timeout=CALL)
        until(lambda: server.server._service.pushes._uploads._open, "it has begun")
        yield push
        never.set()


def test_an_upload_that_stalls_does_not_keep_the_server(tmp_path: Path) -> None:
    with served(tmp_path, timeouts={"drain": 0.1}) as server:
        with stalled_upload(server) as push:
            server.stop()
            with pytest.raises(grpc.RpcError):
                push.result()
        assert server.error is None


def test_who_waits_for_work_is_told_to_come_again(tmp_path: Path) -> None:
    with (
        served(tmp_path, algorithm={"min_clients": 2}) as server,
        Peer(server.address) as peer,
    ):
        frames = peer.stub.pull(
            pb.PullRequest(key=peer.key, epoch=peer.epoch), timeout=CALL
        )
        leases = server.run.coordinator.rounds.leases
        until(lambda: peer.cid in leases.waiting, "the pull waits")
        server.stop()
        reply = read_reply(next(frames))
        assert reply.refused == pb.ANSWER_RETRY
        assert reply.retry_after > 0


def test_a_pull_is_answered_after_a_while_even_without_work(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "algorithm": {"min_clients": 2},
        "timeouts": {"hold": 0.05},
    }
    with served(tmp_path, **config) as server, Peer(server.address) as peer:
        reply = peer.pull()
        assert (reply.task, reply.done) == (pb.TASK_KIND_NONE, False)
        assert reply.kind == pb.PATCH_KIND_FULL


def test_everybody_is_told_that_the_run_has_ended(tmp_path: Path) -> None:
    config: dict[str, Any] = {"stop": {"versions": 1}, "timeouts": {"linger": CALL}}
    with served(tmp_path, **config) as server:
        with Peer(server.address, "ann") as ann, Peer(server.address, "bob") as bob:
            ann.pull()
            ann.push(GOOD)
            for peer in (ann, bob):
                reply = peer.pull()
                assert reply.done
                assert reply.version == 1
                assert not server.lines("stopped")
        server.wait()
        assert server.error is None
        assert (tmp_path / "run" / "models" / "last.safetensors").is_file()


def test_who_never_asks_is_not_waited_for_long(tmp_path: Path) -> None:
    config: dict[str, Any] = {"stop": {"versions": 1}, "timeouts": {"linger": 0.2}}
    with served(tmp_path, **config) as server:
        with Peer(server.address, "ann") as ann, Peer(server.address, "bob"):
            ann.pull()
            ann.push(GOOD)
        server.wait()
        assert server.error is None


def test_an_evicted_client_is_not_waited_for(tmp_path: Path) -> None:
    config: dict[str, Any] = {"stop": {"versions": 1}, "timeouts": {"linger": 2 * CALL}}
    with served(tmp_path, **config) as server:
        with Peer(server.address, "ann") as ann, Peer(server.address, "bob"):
            ann.pull()
            request = pb.OperateRequest(act=pb.ACT_EVICT, name="bob")
            operate(str(server.config.server.journal), request)
            ann.push(GOOD)
            assert ann.pull().done
        until(lambda: server.ended, "nobody is missing", CALL)
        assert server.error is None


def test_what_comes_after_the_end_is_rejected_with_the_reason(tmp_path: Path) -> None:
    config: dict[str, Any] = {"stop": {"versions": 1}, "timeouts": {"linger": CALL}}
    with (
        served(tmp_path, **config) as server,
        Peer(server.address) as peer,
        Peer(server.address, "late") as late_peer,
    ):
        late_peer.pull()
        peer.push(GOOD)
        late = late_peer.push(GOOD)
        assert late.answer == pb.ANSWER_REJECTED_CLOSED
        assert late.reason == "the run has ended: 1 versions"


def test_an_ended_run_still_tells_so_after_a_restart(tmp_path: Path) -> None:
    config: dict[str, Any] = {"stop": {"versions": 1}, "timeouts": {"linger": 0.3}}
    run = Served(tmp_path, settings(tmp_path, **config))
    with run:
        still_serves(run)
        run.wait()
    with run, Peer(run.address, "late") as peer:
        assert peer.pull().done
        run.wait()


def test_a_deadline_makes_a_version_of_what_has_arrived(tmp_path: Path) -> None:
    algorithm = {"buffer": 5, "deadline": 0.2}
    with (
        served(tmp_path, algorithm=algorithm) as server,
        Peer(server.address) as peer,
    ):
        peer.pull()
        peer.push(GOOD)
        until(lambda: server.lines("stepped"), "the deadline passes")
        [step] = server.lines("stepped")
        assert (step["reason"], step["count"], step["version"]) == ("deadline", 1, 1)


def test_a_silent_client_makes_room_for_another_one(tmp_path: Path) -> None:
    closed = threading.Event()
    config: dict[str, Any] = {
        "algorithm": {"concurrency": 1},
        "timeouts": {"lost": 0.2, "heartbeat": 0.1},
    }
    with (
        served(tmp_path, **config) as server,
        Peer(server.address, "ann") as ann,
        Peer(server.address, "bob") as bob,
    ):
        notices = bob.attend(1, beating(closed))
        assert ann.pull().task == pb.TASK_KIND_TRAIN
        assert bob.pull().task == pb.TASK_KIND_TRAIN
        until(lambda: server.lines("lost"), "the loss is told")
        assert [line["client"] for line in server.lines("lost")] == ["ann"]
        assert ann.push(GOOD).answer == pb.ANSWER_ACCEPTED  # it may still deliver
        closed.set()
        assert list(notices) == []


@pytest.mark.parametrize("role", ["trainer", "evaluator"])
def test_who_waits_and_was_silent_is_told_to_ask_again(
    tmp_path: Path, role: str
) -> None:
    config: dict[str, Any] = {
        "algorithm": {"min_clients": 9},
        "timeouts": {"lost": 0.2, "heartbeat": 0.1},
    }
    with served(tmp_path, **config) as server:
        address = server.operator_socket if role == "evaluator" else server.address
        peer = Peer(address, "ann")
        with peer.channel:
            peer.enrol(role=getattr(pb, f"ROLE_{role.upper()}"))
            reply = peer.pull()
            if reply.task == pb.TASK_KIND_EVALUATE:  # version 0
                report = pb.ReportRequest(key=peer.key, samples=1, values={"loss": 1.0})
                report.model.epoch = peer.epoch
                peer.stub.report(report, timeout=5.0)
                reply = peer.pull()
            assert reply.refused == pb.ANSWER_RETRY


def test_a_second_process_of_a_client_takes_its_place(server: Served) -> None:
    closed = threading.Event()
    with Peer(server.address) as peer:
        first = peer.attend(1, beating(closed))
        until(lambda: server.server._sessions.attending, "the first one attends")
        second = peer.attend(2, beating(closed))
        notice = next(first)
        assert notice.kind == pb.Notice.KIND_SUPERSEDED
        assert "another process runs with this client's state" in notice.text
        closed.set()
        assert list(second) == []


def test_a_second_client_of_a_name_takes_its_place(server: Served) -> None:
    closed = threading.Event()
    with Peer(server.address, "one") as one, Peer(server.address, "two") as two:
        two.owner = one.owner  # the same device, which begins anew
        one.enrol(name="ann")
        notices = one.attend(1, beating(closed))
        until(lambda: server.server._sessions.attending, "the first one attends")
        two.enrol(name="ann")
        notice = next(notices)
        assert notice.kind == pb.Notice.KIND_SUPERSEDED
        assert notice.text == "another client has taken the name 'ann'"
        closed.set()


def test_an_evaluator_that_dies_does_not_stop_the_federation(server: Served) -> None:
    role: dict[str, Any] = {"role": pb.ROLE_EVALUATOR}
    evaluator = Peer(server.operator_socket, "judge")
    evaluator.enrol(**role)
    assert evaluator.pull().task == pb.TASK_KIND_EVALUATE
    evaluator.channel.close()  # before it has measured anything
    still_serves(server)
    another = Peer(server.operator_socket, "judge")
    another.enrol(**role)
    reply = another.pull()
    assert reply.task == pb.TASK_KIND_EVALUATE
    another.stub.report(
        pb.ReportRequest(
            key=another.key,
            model=pb.ModelName(epoch=another.epoch, version=reply.version),
            values={"accuracy": 0.5},
            text="def f():\n    return 1",
        ),
        timeout=CALL,
    )
    assert server.lines("evaluated")[0]["values"] == {"accuracy": 0.5}
    another.channel.close()


def test_code_that_fails_on_a_client_is_told_and_survived(server: Served) -> None:
    with Peer(server.address) as peer:
        peer.pull()
        peer.stub.report(pb.ReportRequest(key=peer.key, error="Traceback"), timeout=5)
        assert peer.pull().task == pb.TASK_KIND_TRAIN
        until(lambda: server.lines("failed"), "the failure is told")
    still_serves(server)


def test_the_health_service_tells_when_the_server_begins_to_stop(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as server, grpc.insecure_channel(server.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service="fedwire.v1.Federation"), timeout=CALL
        )
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        stop = stopping(server)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        stop.join()


def test_a_port_that_is_taken_is_named(server: Served, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    config = settings(other, server={"listen": server.address})
    with pytest.raises(UnavailableError) as caught, Served(other, config):
        pass
    assert str(caught.value) == (
        f"cannot listen on {server.address}: the port is taken or the address is not "
        "this machine's (server.listen)"
    )
    assert exit_code(caught.value) == 69
    with Served(other, settings(other)) as again:
        still_serves(again)


def test_a_crowd_of_clients_is_served_at_once(server: Served) -> None:
    def work(number: int) -> None:
        with Peer(server.address, f"client-{number}") as peer:
            for _ in itertools.repeat(None, 5):
                peer.pull()
                assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    still_serves(server)
    assert server.state.applied == 41
