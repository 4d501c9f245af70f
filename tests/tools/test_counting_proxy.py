import socket
from collections.abc import Iterator
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import grpc
import pytest
from fedwire.v1 import federation_pb2 as pb

from tests.peer import Peer, packed
from tests.served import ones, served, until
from tools.counting_proxy import CountingProxy


class Echo(BaseRequestHandler):
    """Says everything once more, in capitals."""

    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data.upper())


@pytest.fixture
def echo() -> Iterator[str]:
    """The address of an echo."""
    with ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def connected(proxy: CountingProxy) -> socket.socket:
    """A connection through the proxy."""
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def received(connection: socket.socket, count: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < count:
        data += connection.recv(count - len(data))
    return data


def test_bytes_are_passed_on_and_counted_each_way(echo: str) -> None:
    with CountingProxy(echo) as proxy, connected(proxy) as connection:
        connection.sendall(b"a" * 100_000)
        assert received(connection, 100_000) == b"A" * 100_000
        assert dict(proxy.sent) == {"up": 100_000, "down": 100_000}
        assert proxy.connections == 1


def test_a_cut_breaks_what_is_open_and_lets_others_in(echo: str) -> None:
    with CountingProxy(echo) as proxy:
        with connected(proxy) as connection:
            connection.sendall(b"x")
            received(connection, 1)
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                received_or_reset(connection)
        with connected(proxy) as connection:
            connection.sendall(b"y")
            assert received(connection, 1) == b"Y"


def test_what_is_blocked_breaks_until_it_is_restored(echo: str) -> None:
    with CountingProxy(echo) as proxy:
        with connected(proxy) as connection:
            connection.sendall(b"x")
            received(connection, 1)
            proxy.block()
            with pytest.raises(ConnectionResetError):
                received_or_reset(connection)
        with connected(proxy) as connection, pytest.raises(ConnectionResetError):
            received_or_reset(connection)
        assert proxy.connections == 1
        proxy.restore()
        with connected(proxy) as connection:
            connection.sendall(b"y")
            assert received(connection, 1) == b"Y"


def received_or_reset(connection: socket.socket) -> None:
    """An end without a reset is one, too: it depends on what was still open."""
    if connection.recv(1) == b"":
        raise ConnectionResetError


def test_nobody_behind_the_proxy_breaks_the_connection() -> None:
    with (
        CountingProxy("127.0.0.1:1") as proxy,
        connected(proxy) as connection,
        pytest.raises(ConnectionResetError),
    ):
        received_or_reset(connection)


def test_a_federation_survives_a_cut(tmp_path: Path) -> None:
    good: Any = packed(ones())
    with (
        served(tmp_path) as server,
        CountingProxy(server.address) as proxy,
        Peer(proxy.address) as peer,
    ):
        peer.pull()
        assert peer.push(good).answer == pb.ANSWER_ACCEPTED
        assert proxy.sent["up"] > len(good)
        proxy.cut()

        def again() -> bool:
            try:
                return bool(peer.push(good, seq=1).answer == pb.ANSWER_ACCEPTED)
            except grpc.RpcError:
                return False

        until(again, "the same message is answered again")
        assert server.state.applied == 1
        assert proxy.connections == 2
