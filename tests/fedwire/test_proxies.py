"""The proxies of the environment: which way a client goes, and how it is told."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from fedwire.connect import Address, explaining, parse_address
from fedwire.proxies import proxy_for
from fedwire.service import Stub
from fedwire.v1 import federation_pb2 as pb

from fedcore.errors import ConfigError, LatecomerError, RefusedError, UnavailableError
from tests.connect_proxy import ConnectProxy
from tests.served import Served, served

VARIABLES = (
    "grpc_proxy",
    "https_proxy",
    "http_proxy",
    "no_grpc_proxy",
    "no_proxy",
)
P, Q = "http://p.example:3128", "http://q.example:3128"
FAR = "fed.example.org"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """A federation, served."""
    with served(tmp_path) as running:
        yield running


ROUTES = [
    ({}, FAR, None),
    ({"http_proxy": P}, FAR, "http_proxy"),
    ({"http_proxy": Q, "https_proxy": P}, FAR, "https_proxy"),
    ({"http_proxy": Q, "https_proxy": Q, "grpc_proxy": P}, FAR, "grpc_proxy"),
    ({"http_proxy": Q, "grpc_proxy": ""}, FAR, None),  # the first that is set counts
    ({"http_proxy": P, "no_proxy": FAR}, FAR, None),
    ({"http_proxy": P, "no_proxy": "a.example, Example.ORG"}, FAR, None),
    ({"http_proxy": P, "no_proxy": ".example.org"}, FAR, None),
    ({"http_proxy": P, "no_proxy": "*.example.org"}, FAR, None),
    ({"http_proxy": P, "no_proxy": "*"}, FAR, None),
    ({"http_proxy": P, "no_proxy": "a.example,, ,b.example, "}, FAR, "http_proxy"),
    ({"http_proxy": P, "no_proxy": ""}, FAR, "http_proxy"),
    ({"http_proxy": P, "no_proxy": FAR, "no_grpc_proxy": ""}, FAR, "http_proxy"),
    ({"http_proxy": P, "no_grpc_proxy": FAR}, FAR, None),
    ({"http_proxy": P, "no_proxy": "10.0.0.0/8"}, "10.1.2.3", None),
    ({"http_proxy": P, "no_proxy": "10.0.0.0/8"}, "11.1.2.3", "http_proxy"),
    ({"http_proxy": P, "no_proxy": "10.0.0.0/8, nonsense/8"}, FAR, "http_proxy"),
    ({"http_proxy": P, "no_proxy": "2001:db8::/32"}, "2001:db8::7", None),
    ({"http_proxy": P}, "localhost", None),
    ({"http_proxy": P}, "127.0.0.1", None),
    ({"https_proxy": P}, "127.9.9.9", None),
    ({"grpc_proxy": P}, "::1", None),
    ({"http_proxy": P}, "127.1", None),
    ({"http_proxy": P}, "2130706433", None),
    ({"http_proxy": P}, "::ffff:127.0.0.1", None),
    ({"http_proxy": P}, "localhost.", None),
    ({"http_proxy": P}, "0.0.0.0", None),
    ({"http_proxy": P}, "::", None),
    ({"http_proxy": P}, "app.localhost", None),
    ({"http_proxy": P}, "unix:/run/server", None),
]


@pytest.mark.parametrize(("told", "host", "variable"), ROUTES, ids=str)
def test_the_environment_says_whether_a_server_is_reached_through_a_proxy(
    told: dict[str, str],
    host: str,
    variable: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    found = Address(host).proxy
    assert (found and found.variable) == variable
    assert found is None or (found.host, found.port) == ("p.example", 3128)


@pytest.mark.parametrize(("told", "host", "variable"), ROUTES, ids=str)
def test_calls_go_the_way_that_was_decided(
    told: dict[str, str],
    host: str,
    variable: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GRPC reads the same variables; it must not come to another decision."""
    with ConnectProxy("127.0.0.1:9", "503 No") as proxy:
        for name, value in told.items():
            here = f"http://{proxy.address}"
            monkeypatch.setenv(name, value.replace(P, here).replace(Q, here))
        far = Address(host, 9, plaintext=True)
        with far.channel() as channel, contextlib.suppress(grpc.RpcError):
            Stub(channel).status(pb.StatusRequest(), timeout=0.3)
        assert bool(proxy.asked) == (variable is not None)


@pytest.mark.parametrize(
    "value",
    [
        "https://p.example:3128",
        "socks5://p.example",
        "http://",
        "http://a:b:c",
        "http://p:0",
        "http://p:x",
        "http://p:70000",
    ],
)
def test_a_proxy_that_cannot_be_used_is_an_error_and_not_ignored(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", value)
    with pytest.raises(ConfigError, match=r"^https_proxy: .*http://HOST:PORT"):
        Address(FAR).channel()
    assert proxy_for("127.0.0.1") is None
    Address("127.0.0.1").channel().close()


def test_a_proxy_may_be_named_without_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "p.example:3128")
    assert str(proxy_for(FAR)) == "http://p.example:3128 (http_proxy)"
    monkeypatch.setenv("http_proxy", "http://p.example")
    assert str(proxy_for(FAR)) == "http://p.example:80 (http_proxy)"


def test_a_server_is_reached_through_the_proxy_with_its_password_and_without_showing_it(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = parse_address(server.address).port
    with ConnectProxy(server.address) as proxy:
        monkeypatch.setenv("http_proxy", f"http://ann:se%20cret@{proxy.address}")
        address = Address(FAR, port, plaintext=True)
        with address.channel() as channel:
            Stub(channel).status(pb.StatusRequest(), timeout=5)
        assert proxy.asked == [f"{FAR}:{port}"]
        assert proxy.passwords == ["Basic YW5uOnNlIGNyZXQ="]
        assert str(address.proxy) == f"http://{proxy.address} (http_proxy)"
        assert "cret" not in repr(address.proxy)


def error_of(address: Address) -> LatecomerError:
    """What a call to this address ends with."""
    with (
        pytest.raises(LatecomerError) as caught,
        address.channel() as channel,
        explaining(address),
    ):
        Stub(channel).status(pb.StatusRequest(), timeout=5)
    return caught.value


def test_a_proxy_that_is_not_there_or_refuses_is_named_with_the_way_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    monkeypatch.setenv("https_proxy", f"http://ann:secret@127.0.0.1:{port}")
    address = Address(FAR, 9, plaintext=True)
    error = error_of(address)
    assert type(error) is UnavailableError
    assert str(error) == (
        f"{FAR}:9 does not answer: Connection refused; the way there leads through "
        f"the proxy http://127.0.0.1:{port} (https_proxy), and no_proxy={FAR} goes "
        "around it"
    )
    with ConnectProxy("127.0.0.1:9", "403 Forbidden") as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        assert "proxy http://127.0.0.1" in str(error_of(address))


def test_a_proxy_that_looks_into_tls_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", P)

    class Failed(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

        def details(self) -> str:
            return "Ssl handshake failed: CERTIFICATE_VERIFY_FAILED"

    named = pytest.raises(RefusedError, match=r"through the proxy http://p\.example")
    with named, explaining(Address(FAR)):
        raise Failed
