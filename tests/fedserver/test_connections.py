"""Connections: as many as there are descriptors for, and ended with one search."""

import asyncio
import os
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

from fedserver.calls import connections as module
from fedserver.calls.connections import Address, Disconnector, address_of, neighbours_of
from fedserver.calls.listening import options
from tests.patience import PATIENCE
from tests.peer import CALL, Peer, packed
from tests.served import ones, served, settings, until

DIM = 200_000  # updates of 0.8 MB, which lie in segments: files that must be opened
FEW = 300  # descriptors of a server, as a container may have
SILENT = 400
needs_descriptors = pytest.mark.skipif(
    not module._DESCRIPTORS.is_dir(), reason="needs /proc"
)


@contextmanager
def limited(tmp_path: Path) -> Iterator[str]:
    """The address of a server that may open few files."""
    path = tmp_path / "federation.yaml"
    config = settings(tmp_path, DIM).model_dump(mode="json")
    path.write_text(yaml.safe_dump(config))
    process = subprocess.Popen(
        [sys.executable, "-m", "fedserver", "run", str(path), "--log", "json"],
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
    told = dict(options(settings(tmp_path).server))
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
        parked = server.run.coordinator.rounds.leases.waiting
        until(lambda: len(parked) == 4, "the first calls have arrived")
        peers[0].enrol()  # a call that begins after all of them
        assert len(parked) == 4


class Descriptors:
    """A listening port, its clients' connections, and how often they were searched."""

    def __init__(self, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self._listening = stack.enter_context(closing(listening))
        self._stack, self.searches = stack, 0
        self.port = listening.getsockname()[1]
        search = Disconnector._end_all

        def counted(disconnector: Disconnector, unwanted: set[Address]) -> None:
            self.searches += 1
            search(disconnector, unwanted)

        monkeypatch.setattr(Disconnector, "_end_all", counted)

    def connect(self) -> tuple[socket.socket, str]:
        """A client's end of a new connection, and gRPC's name of that client."""
        address = f"127.0.0.1:{self.port}"
        client = self._stack.enter_context(closing(connected(address)))
        accepted, (host, port) = self._listening.accept()
        self._stack.enter_context(closing(accepted))
        client.settimeout(0.2)
        return client, f"ipv4:{host}:{port}"


@needs_descriptors
def test_connections_that_end_together_are_searched_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ExitStack() as stack:
        port = Descriptors(stack, monkeypatch)
        clients = [port.connect() for _ in range(40)]

        async def end_most() -> None:
            disconnector = Disconnector(port.port)
            for _, peer in clients[1:]:
                disconnector.end(peer)
            await asyncio.sleep(2 * module._GATHER)
            await asyncio.get_running_loop().shutdown_default_executor()

        asyncio.run(end_most())
        assert port.searches == 1
        assert [is_closed(client) for client, _ in clients] == [False] + 39 * [True]


@needs_descriptors
def test_a_connection_can_be_ended_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ExitStack() as stack:
        port = Descriptors(stack, monkeypatch)
        clients = [port.connect() for _ in range(2)]
        descriptors = len(os.listdir(module._DESCRIPTORS))

        async def end_each() -> None:
            disconnector = Disconnector(port.port)
            for _, peer in clients:
                disconnector.end(peer)
                await asyncio.sleep(2 * module._GATHER)
            disconnector.end("unix:")  # the operator's socket has no address
            await asyncio.get_running_loop().shutdown_default_executor()

        asyncio.run(end_each())
        assert port.searches == 2
        assert all(is_closed(client) for client, _ in clients)
        assert len(os.listdir(module._DESCRIPTORS)) == descriptors  # none is kept


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:5000", ("10.0.0.1", 5000)),
        ("ipv6:%5B::1%5D:5000", ("::1", 5000)),
        ("ipv6:[::ffff:10.0.0.1]:5000", ("10.0.0.1", 5000)),
        ("ipv6:%5Bfe80::1%25eth0%5D:5000", ("fe80::1", 5000)),
    ],
)
def test_grpc_and_the_kernel_mean_the_same_peer(
    peer: str, address: tuple[str, int]
) -> None:
    assert address_of(peer) == address


@pytest.mark.parametrize(
    ("peer", "neighbours"),
    [
        ("ipv4:10.0.0.1:5000", "10.0.0.1"),
        ("ipv6:%5B2001:db8:1:2:3::9%5D:5000", "2001:db8:1:2::/64"),
        ("ipv6:%5B::ffff:10.0.0.1%5D:5000", "10.0.0.1"),
        ("unix:/tmp/operator", "unix:/tmp/operator"),
    ],
)
def test_peers_that_may_be_one_machine_are_neighbours(
    peer: str, neighbours: str
) -> None:
    assert neighbours_of(peer) == neighbours
