"""Connections: as many as there are descriptors for, and found with one look."""

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import grpc
import pytest
import yaml
from fedwire.connect import OPTIONS
from fedwire.v1 import federation_pb2 as pb

from fedrun.traffic import Traffic
from fedserver import sockets as module
from fedserver.server import _options
from fedserver.sockets import Sockets
from tests.peer import CALL, Peer, packed
from tests.served import PATIENCE, ones, served, settings, until

DIM = 200_000  # updates of 0.8 MB, which lie in segments: files that must be opened
FEW = 300  # descriptors of a server, as a container may have
SILENT = 400


@contextmanager
def limited(tmp_path: Path) -> Iterator[str]:
    """The address of a server that may open few files."""
    path = tmp_path / "federation.yaml"
    config = settings(tmp_path, DIM).model_dump(mode="json")
    path.write_text(yaml.safe_dump(config))
    process = subprocess.Popen(
        [sys.executable, "-m", "fedserver", "run", str(path), "--lines"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW)),
    )
    try:
        assert process.stdout is not None
        yield yaml.safe_load(process.stdout.readline())["address"]
        assert process.poll() is None, "the server has ended"
    finally:
        process.kill()
        process.communicate()


def connected(address: str) -> socket.socket:
    """A connection that says nothing."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def test_silent_connections_do_not_take_the_journals_descriptors(
    tmp_path: Path,
) -> None:
    with limited(tmp_path) as address, ExitStack() as stack:
        peer = stack.enter_context(Peer(address, dim=DIM))
        peer.pull()
        for _ in range(SILENT):
            stack.enter_context(closing(connected(address)))
        for _ in range(3):
            assert peer.push(packed(ones(DIM))).answer == pb.ANSWER_ACCEPTED


def test_connections_beyond_the_limit_are_closed_at_once(tmp_path: Path) -> None:
    with served(tmp_path, server={"max_connections": 3}) as server, ExitStack() as all_:
        peer = all_.enter_context(Peer(server.address))
        opened = [
            all_.enter_context(closing(connected(server.address))) for _ in range(6)
        ]
        for one in opened:
            one.settimeout(0.2)
        until(lambda: sum(map(is_closed, opened)) == 4, "four are closed")
        assert peer.pull().task == pb.TASK_KIND_TRAIN


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has hung up."""
    try:
        return not connection.recv(1 << 16)
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_who_says_nothing_is_sent_away(tmp_path: Path) -> None:
    told = dict(_options(settings(tmp_path).server))
    assert told["grpc.server_handshake_timeout_ms"] == 10_000
    assert told["grpc.max_connection_idle_ms"] == 300_000


def test_one_connection_has_so_many_calls_at_a_time(tmp_path: Path) -> None:
    limits = {"max_streams": 4}
    algorithm = {"min_clients": 99}
    with (
        served(tmp_path, server=limits, algorithm=algorithm) as server,
        ExitStack() as stack,
    ):
        peers = [stack.enter_context(Peer(server.address, f"p{i}")) for i in range(9)]
        own = [*OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        channel = stack.enter_context(grpc.insecure_channel(server.address, own))
        pull = channel.unary_stream("/fedwire.v1.Federation/Pull", None, None)
        for peer in peers:
            request = pb.PullRequest(key=peer.key, epoch=peer.epoch)
            stack.callback(pull(request.SerializeToString(), timeout=CALL).cancel)
        parked = server.run.coordinator.leases.parked
        until(lambda: len(parked) == 4, "the first calls have arrived")
        peers[0].enrol()  # a call that begins after all of them
        assert len(parked) == 4


@pytest.mark.skipif(not module._DESCRIPTORS.is_dir(), reason="needs /proc")
def test_half_closed_connections_are_looked_for_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    look = module._sockets

    def counted() -> Iterator[tuple[int, int]]:
        nonlocal looks
        looks += 1
        return look()

    with ExitStack() as stack:
        listening = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        port = listening.getsockname()[1]
        book = Sockets(Traffic(), port)
        stack.callback(book.close)
        for _ in range(40):
            client = stack.enter_context(closing(connected(f"127.0.0.1:{port}")))
            accepted, (host, from_port) = listening.accept()
            stack.enter_context(closing(accepted))
            book.serve(f"ipv4:{host}:{from_port}", "ann")
            client.shutdown(socket.SHUT_WR)
        assert book.connections == 40
        monkeypatch.setattr(module, "_sockets", counted)
        readings = 3 * module._PATIENCE
        for _ in range(readings):
            book.read()
        assert book.connections == 40  # whoever serves them has not closed them
        assert 0 < looks <= readings


@pytest.mark.skipif(not module._DESCRIPTORS.is_dir(), reason="needs /proc")
def test_calls_that_end_after_the_last_reading_leave_no_descriptor() -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        port = listening.getsockname()[1]
        book = Sockets(Traffic(), port)
        stack.enter_context(closing(connected(f"127.0.0.1:{port}")))
        accepted, (host, from_port) = listening.accept()
        stack.enter_context(closing(accepted))
        book.serve(f"ipv4:{host}:{from_port}", "ann")
        assert book.connections == 1
        book.close()
        book.serve(f"ipv4:{host}:{from_port}", "ann")
        book.read()
        assert book.connections == 0
