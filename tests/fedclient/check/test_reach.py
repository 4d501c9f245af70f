"""Servers that cannot be reached, each told by a sentence of its own."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from fedwire.connect import Address

from fedclient.check import reach
from fedcore.errors import LatecomerError, RefusedError, UnavailableError
from tests.connect_proxy import ConnectProxy


@contextmanager
def answering(
    say: Callable[[socket.socket], None],
) -> Iterator[int]:
    """A server that takes connections, and does this with each."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ending = threading.Event()

        def work() -> None:
            while not ending.is_set():
                try:
                    taken, _ = listening.accept()
                except OSError:
                    return
                with taken, suppress(OSError):
                    say(taken)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        ending.set()
        with socket.create_connection(listening.getsockname()):
            pass
        thread.join(5)


def speaking(words: bytes) -> Callable[[socket.socket], None]:
    def say(taken: socket.socket) -> None:
        taken.settimeout(2)
        if words:
            taken.sendall(words)
        taken.recv(100)

    return say


def with_tls(context: ssl.SSLContext) -> Callable[[socket.socket], None]:
    def say(taken: socket.socket) -> None:
        taken.settimeout(2)
        with context.wrap_socket(taken, server_side=True) as secure:
            secure.recv(1)

    return say


def server_of(issued: trustme.LeafCert, *protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    context.set_alpn_protocols(list(protocols))
    return context


@pytest.fixture
def authority(tmp_path: Path) -> tuple[trustme.CA, Path]:
    made, path = trustme.CA(), tmp_path / "ca.pem"
    made.cert_pem.write_to_path(str(path))
    return made, path


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "PATIENCE", 0.5)


def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(UnavailableError, match=r"'no-such-host\.invalid' is not known"):
        reach.resolve(Address("no-such-host.invalid"))


def test_a_port_at_which_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(UnavailableError, match=f"nothing listens at 127.0.0.1:{port}"):
        reach.connect(Address("127.0.0.1", port))


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            RefusedError,
            "'HTTP/1.1 400 Bad Request'",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", RefusedError, "it answers 'SSH-2.0-OpenSSH_9.2'"),
        (b"\x15\x03\x01\x00\x02\x02\x46", RefusedError, "speaks TLS"),
        (b"", UnavailableError, "takes the connection and says nothing"),
    ],
)
def test_a_port_that_speaks_something_else(
    words: bytes, error: type[LatecomerError], sentence: str
) -> None:
    def say(taken: socket.socket) -> None:
        speaking(words)(taken)
        if not words:
            threading.Event().wait(1)

    with answering(say) as port, pytest.raises(error, match=sentence):
        reach.speak(Address("127.0.0.1", port))


def test_a_certificate_is_read_once_it_is_trusted(
    authority: tuple[trustme.CA, Path],
) -> None:
    made, path = authority
    context = server_of(made.issue_cert("127.0.0.1", "fed.example.org"), "h2")
    with answering(with_tls(context)) as port:
        told = reach.certificate(Address("127.0.0.1", port, ca=path))
    assert set(told.names) == {"127.0.0.1", "fed.example.org"}
    assert told.until > datetime.now(UTC)
    assert told.issuer
    assert len(told.fingerprint) == 64


def test_certificates_that_are_not_trusted(
    authority: tuple[trustme.CA, Path],
) -> None:
    made, path = authority
    past = datetime.now(UTC) - timedelta(days=1)
    cases = [
        (trustme.CA().issue_cert("127.0.0.1"), f"is not signed by --ca {path}"),
        (made.issue_cert("fed.example.org"), "valid for fed.example.org, and not for"),
        (made.issue_cert("127.0.0.1", not_after=past), "has expired"),
    ]
    for issued, sentence in cases:
        with (
            answering(with_tls(server_of(issued, "h2"))) as port,
            pytest.raises(RefusedError, match=sentence),
        ):
            reach.certificate(Address("127.0.0.1", port, ca=path))


def test_tls_with_something_else_behind_it(
    authority: tuple[trustme.CA, Path],
) -> None:
    made, path = authority
    context = server_of(made.issue_cert("127.0.0.1"), "http/1.1")
    with (
        answering(with_tls(context)) as port,
        pytest.raises(
            RefusedError, match=r"something else than gRPC behind it|no secure"
        ),
    ):
        reach.certificate(Address("127.0.0.1", port, ca=path))


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0\r\n"])
def test_a_port_without_tls(authority: tuple[trustme.CA, Path], words: bytes) -> None:
    _, path = authority
    with (
        answering(speaking(words)) as port,
        pytest.raises(RefusedError, match="does not speak TLS"),
    ):
        reach.certificate(Address("127.0.0.1", port, ca=path))


def test_a_certificate_is_read_through_the_proxy_of_the_environment(
    authority: tuple[trustme.CA, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path = authority
    context = server_of(made.issue_cert("fed.example.org"), "h2")
    with (
        answering(with_tls(context)) as port,
        ConnectProxy(f"127.0.0.1:{port}") as proxy,
    ):
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        address = Address("fed.example.org", port, ca=path)
        assert reach.certificate(address).names == ("fed.example.org",)
        assert proxy.asked == [str(address)]
        proxy.refusal = "407 Proxy Authentication Required"
        with pytest.raises(UnavailableError) as caught:
            reach.connect(address)
        assert str(caught.value) == (
            f"the proxy http://{proxy.address} (https_proxy) opens no way to "
            f"{address}: HTTP/1.1 407 Proxy Authentication Required"
        )


def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
    there = f"the proxy http://127.0.0.1:{port} \\(http_proxy\\)"
    with pytest.raises(UnavailableError, match=f"listens where {there} should be"):
        reach.connect(Address("fed.example.org", plaintext=True))

    def say_nothing(_: socket.socket) -> None:
        threading.Event().wait(1)

    with answering(say_nothing) as port:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        with pytest.raises(UnavailableError, match="does not answer within"):
            reach.connect(Address("fed.example.org", plaintext=True))
