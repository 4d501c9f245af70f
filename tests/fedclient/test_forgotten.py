"""Connections that a proxy, a NAT or a firewall has forgotten, and told nobody."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import fedwire.connect
import pytest
from fedwire.connect import parse_address
from fedwire.v1 import federation_pb2 as pb

import fedclient.wire.connection
import fedserver.calls.listening
from fedclient.wire.connection import Connection
from fedcore.errors import UnavailableError
from tests.fedclient.test_member import worker
from tests.peer import key_of
from tests.served import Served, served, spec_of, until
from tools.counting_proxy import CountingProxy

Options = tuple[tuple[str, int], ...]


def sooner(options: Options, milliseconds: dict[str, int]) -> Options:
    """The options, with smaller values where they say one."""
    return tuple((name, milliseconds.get(name, value)) for name, value in options)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A federation whose connections are looked at every quarter of a second."""
    quick = {
        "grpc.keepalive_time_ms": 250,
        "grpc.keepalive_timeout_ms": 250,
        "grpc.http2.ping_timeout_ms": 250,
        "grpc.http2.min_recv_ping_interval_without_data_ms": 1,
    }
    for module in fedwire.connect, fedserver.calls.listening:
        monkeypatch.setattr(module, "OPTIONS", sooner(module.OPTIONS, quick))
    with served(tmp_path, timeouts={"heartbeat": 0.1}) as running:
        yield running


def test_a_client_whose_connection_is_forgotten_connects_anew(
    server: Served, tmp_path: Path
) -> None:
    with CountingProxy(server.address) as proxy:
        with worker(server, tmp_path / "ann", at=proxy.address, give_up=None) as ann:
            thread = threading.Thread(target=ann.run, daemon=True)
            thread.start()
            until(lambda: server.state.version > 2, "it works")
            proxy.forget()
            until(lambda: proxy.connections > 1, "it connects anew", 20.0)
            version = server.state.version
            until(lambda: server.state.version > version, "it works again", 20.0)
            ann._updates = 0
            thread.join(20.0)
        assert not thread.is_alive()
        assert ann._accepted == server.state.applied


def test_after_a_call_without_an_answer_the_next_one_connects_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fedclient.wire.connection, "CALL", 0.3)
    with served(tmp_path) as server, CountingProxy(server.address) as proxy:
        address, key = parse_address(proxy.address), key_of("ann")
        enrol = pb.EnrolRequest(key=key, owner=key)
        with closing(Connection(address, spec_of(100), key)) as connection:
            connection.enrol(enrol)
            proxy.forget()
            with pytest.raises(UnavailableError, match="Deadline Exceeded"):
                connection.enrol(enrol)
            connection.enrol(enrol)
        assert proxy.connections == 2
