import contextlib
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from fedwire.connect import (
    DEFAULT_PORT,
    MESSAGE_LIMIT,
    OPTIONS,
    Address,
    explain,
    parse_address,
)
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import (
    ConfigError,
    LatecomerError,
    ProtocolError,
    RefusedError,
    UnavailableError,
)
from fedcore.text import LONG_SENTENCE, is_printable
from fedrun.cli.exit_codes import exit_code
from tests.served import served
from tools.counting_proxy import CountingProxy

HERE = Address("127.0.0.1", 1)


class Failed(grpc.RpcError):
    """A call that ended with a status."""

    def __init__(self, code: grpc.StatusCode, details: str | None) -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str | None:
        return self._details


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("example.org", "example.org", DEFAULT_PORT),
        ("example.org:9", "example.org", 9),
        ("10.0.0.1:65535", "10.0.0.1", 65535),
        ("[::1]", "::1", DEFAULT_PORT),
        ("[2001:db8::7]:9", "2001:db8::7", 9),
    ],
)
def test_an_address_is_a_host_with_or_without_a_port(
    text: str, host: str, port: int
) -> None:
    address = parse_address(text)
    assert (address.host, address.port) == (host, port)


@pytest.mark.parametrize(
    "text", ["a:", ":9", "a:b", "a:0", "a:65536", "a:-1", "http://a:9", "http://a"]
)
def test_anything_else_is_answered_with_what_is_expected(text: str) -> None:
    with pytest.raises(ConfigError, match=f"{text}: expected HOST or HOST:PORT"):
        parse_address(text)


@given(st.text(max_size=20))
def test_any_text_is_an_address_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert parse_address(text).port in range(1, 65536)


@pytest.mark.parametrize("host", ["localhost", "127.1", "127.9.9.9", "::1"])
def test_this_machine_needs_no_encryption(host: str) -> None:
    assert not Address(host).is_encrypted
    assert Address(host, ca=Path("ca.pem")).is_encrypted


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1", "0.0.0.0", "::"])
def test_other_machines_are_reached_in_plain_text_only_if_somebody_says_so(
    host: str,
) -> None:
    assert Address(host).is_encrypted
    assert not Address(host, plaintext=True).is_encrypted


def test_a_certificate_and_its_key_belong_together() -> None:
    with pytest.raises(ConfigError, match="--certificate and --key belong together"):
        Address("example.org", certificate=Path("c.pem"))


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ca\.pem: No such file"):
        Address("example.org", ca=tmp_path / "ca.pem").channel()


def test_files_without_certificates_are_refused_at_once(tmp_path: Path) -> None:
    pair = trustme.CA().issue_cert("here")
    key, certificate = tmp_path / "key.pem", tmp_path / "own.pem"
    pair.private_key_pem.write_to_path(key)
    pair.cert_chain_pems[0].write_to_path(certificate)
    with pytest.raises(ConfigError, match=r"--ca .*: expected certificates in PEM"):
        Address("example.org", ca=key).channel()
    Address("example.org", certificate=certificate, key=key).channel().close()
    trustme.CA().issue_cert("there").private_key_pem.write_to_path(key)
    with pytest.raises(ConfigError, match="are not a certificate and its key: "):
        Address("example.org", certificate=certificate, key=key).channel()


def test_an_address_is_written_as_it_is_read() -> None:
    for text in ("example.org:9", "[::1]:8443"):
        assert str(parse_address(text)) == text


@pytest.mark.parametrize("code", list(grpc.StatusCode))
def test_what_a_server_says_of_a_failure_can_be_shown(code: grpc.StatusCode) -> None:
    said = str(explain(Failed(code, "\x1b[2J\n" + "x" * 100_000), HERE))
    assert is_printable(said)
    assert len(said) < 2 * LONG_SENTENCE


@pytest.mark.parametrize("code", list(grpc.StatusCode))
@pytest.mark.parametrize("details", [None, "", "nobody knows"])
def test_every_failed_call_is_an_error_of_the_platform(
    code: grpc.StatusCode, details: str | None
) -> None:
    error = explain(Failed(code, details), HERE)
    assert isinstance(error, LatecomerError)
    assert str(HERE) in str(error)


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        ("UNAVAILABLE", UnavailableError, 69),
        ("DEADLINE_EXCEEDED", UnavailableError, 69),
        ("CANCELLED", UnavailableError, 69),
        ("FAILED_PRECONDITION", RefusedError, 77),
        ("PERMISSION_DENIED", RefusedError, 77),
        ("UNIMPLEMENTED", RefusedError, 77),
        ("INTERNAL", UnavailableError, 69),
        ("RESOURCE_EXHAUSTED", UnavailableError, 69),
        ("INVALID_ARGUMENT", ProtocolError, 76),
    ],
)
def test_the_error_tells_whether_it_makes_sense_to_try_again(
    code: str, kind: Any, status: int
) -> None:
    error = explain(Failed(grpc.StatusCode[code], "why"), HERE)
    assert type(error) is kind
    assert exit_code(error) == status


@pytest.mark.parametrize(
    "details",
    [
        "CLIENT: Sent message larger than max (5000000 vs. 4194304)",
        "SERVER: Received message larger than max (4194305 vs. 4194304)",
    ],
)
def test_a_message_that_is_too_large_is_not_sent_again(details: str) -> None:
    error = explain(Failed(grpc.StatusCode.RESOURCE_EXHAUSTED, details), HERE)
    assert type(error) is ProtocolError


def test_a_failed_handshake_names_the_options_that_help() -> None:
    broken = Failed(grpc.StatusCode.UNAVAILABLE, "Ssl handshake failed: CERTIFICATE")
    with pytest.raises(RefusedError, match="--ca, --certificate, --key"):
        raise explain(broken, Address("example.org"))


@pytest.mark.parametrize(
    "address",
    [
        Address("tls.example.org"),
        Address("tls.example.org", plaintext=True),
        Address("unix:/run/ssl/server"),
    ],
    ids=str,
)
def test_the_name_of_a_host_is_no_failed_handshake(address: Address) -> None:
    details = f"errors resolving {address}: hostname lookup error"
    error = explain(Failed(grpc.StatusCode.UNAVAILABLE, details), address)
    assert type(error) is UnavailableError  # a client tries again


def test_a_server_that_hangs_up_on_plain_text_may_speak_tls() -> None:
    closed = Failed(grpc.StatusCode.UNAVAILABLE, "last error: Socket closed")
    told = str(explain(closed, HERE))
    assert told.endswith("Socket closed; if the server speaks TLS, give --ca")
    assert "speaks TLS" not in str(explain(closed, Address("example.org")))


def test_a_connection_that_times_out_is_no_failed_handshake() -> None:
    details = "failed to connect to all addresses; last error: UNKNOWN: " + (
        "ipv4:10.89.0.7:8443: tcp handshaker shutdown"
    )
    gone = Failed(grpc.StatusCode.UNAVAILABLE, details)
    with pytest.raises(UnavailableError, match="does not answer"):
        raise explain(gone, HERE)


def test_a_server_that_is_not_there_is_told_in_a_few_words() -> None:
    details = "failed to connect to all addresses; last error: UNKNOWN: " + (
        "ipv6:%5B::1%5D:8443: Failed to connect to remote host: Connection refused"
    )
    gone = Failed(grpc.StatusCode.UNAVAILABLE, details)
    assert str(explain(gone, HERE)) == f"{HERE} does not answer: Connection refused"


def test_a_refusal_that_speaks_of_a_certificate_is_no_failed_handshake() -> None:
    details = "expected tensor 'w', found 'certificate.weight'"
    refused = Failed(grpc.StatusCode.FAILED_PRECONDITION, details)
    with pytest.raises(RefusedError) as caught:
        raise explain(refused, HERE)
    assert str(caught.value) == f"{HERE}: {details}"


def test_idle_connections_are_kept_open_by_pings() -> None:
    options = dict(OPTIONS)
    assert options["grpc.keepalive_time_ms"] == 15_000
    assert options["grpc.http2.max_pings_without_data"] == 0
    assert options["grpc.max_receive_message_length"] == MESSAGE_LIMIT


def test_a_slow_round_trip_is_no_reason_to_give_up_connecting(tmp_path: Path) -> None:
    with (
        served(tmp_path) as server,
        CountingProxy(server.address, delay=1.2) as proxy,
        contextlib.closing(parse_address(proxy.address).channel()) as channel,
    ):
        grpc.channel_ready_future(channel).result(timeout=8)
        assert proxy.connections == 1
