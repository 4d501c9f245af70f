"""Connects a client to a server: its address, TLS, and the meaning of failures."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from fedcore.errors import (
    ConfigError,
    LatecomerError,
    OtherRunError,
    ProtocolError,
    RefusedError,
    UnavailableError,
)
from fedcore.hosts import is_loopback
from fedcore.text import from_peer
from fedwire.certificates import require_pair
from fedwire.proxies import Proxy, proxy_for

SERVICE = "fedwire.v1.Federation"  # as calls and the health service name it
DEFAULT_PORT = 8443
MESSAGE_LIMIT = 4 << 20  # bytes of one message; large payloads come in chunks
SOCKET = "unix:"  # on this machine, and protected by its path
_TOO_LARGE = "larger than max"  # in gRPC's words, of a message
_NOT_REACHED = "Failed to connect to remote host: "  # gRPC's words before the reason
# gRPC can send pings to learn a link's bandwidth; they would cost 130 bytes an update.
# A fixed window of 1 MiB fills a link of 80 Mbit/s with a round trip of 100 ms.
WINDOWS = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 20))
# How long an attempt to connect may take. TCP, TLS and the first frame of HTTP/2 are
# three round trips or more, and a packet of theirs that is lost costs seconds.
CONNECT_MS = 10_000
# How soon a connection that somebody on the way has forgotten is given up: where data
# get no TCP acknowledgement, and where a ping gets no answer, which has a time-out of
# its own (60 s by default). A link of 40 kB/s with an upload of 2 MB keeps within it.
DEAD = (("grpc.keepalive_timeout_ms", 20_000), ("grpc.http2.ping_timeout_ms", 20_000))
OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.keepalive_time_ms", 15_000),  # a server of ours allows 10 s
    ("grpc.http2.max_pings_without_data", 0),
    *DEAD,
    *WINDOWS,
    # The client itself decides how long to wait (docs/protocol.md).
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection
)


@dataclass(frozen=True)
class Address:
    """The address of a server, and how it is trusted."""

    host: str
    port: int = DEFAULT_PORT
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    plaintext: bool = False

    def __post_init__(self) -> None:
        """Checks that certificate and key come together."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("--certificate and --key belong together")

    def __str__(self) -> str:
        """Returns HOST:PORT, or the path of a socket."""
        if self.is_socket:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_socket(self) -> bool:
        """Whether it is a socket of the file system."""
        return self.host.startswith(SOCKET)

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        return self.is_socket or is_loopback(self.host)

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is used."""
        if self.ca is not None or self.certificate is not None:
            return True
        return not (self.plaintext or self.is_local)

    @property
    def proxy(self) -> Proxy | None:
        """The proxy of the environment through which the server is reached.

        Raises:
            ConfigError: the environment names something else than an HTTP proxy.
        """
        return None if self.is_local else proxy_for(self.host)

    @property
    def by_the_way(self) -> str:
        """Says through which proxy the server is reached; empty: through none."""
        if (proxy := self.proxy) is None:
            return ""
        return (
            f"; the way there leads through the proxy {proxy}, and no_proxy="
            f"{self.host} goes around it"
        )

    def channel(self) -> grpc.Channel:
        """Returns a channel that connects when it is first used.

        Raises:
            ConfigError: a file does not hold the certificates or key that it should, or
                the environment names a proxy that cannot be used.
        """
        proxy = self.proxy
        direct = ("grpc.enable_http_proxy", 0)
        way = direct if proxy is None else ("grpc.http_proxy", proxy.url)
        options = (*OPTIONS, way)
        if not self.is_encrypted:
            return grpc.insecure_channel(str(self), options)
        credentials = grpc.ssl_channel_credentials(
            _read(self.ca), _read(self.key), _read(self.certificate)
        )
        _check_certificates(self)
        return grpc.secure_channel(str(self), credentials, options)


def parse_address(text: str, **trust: Any) -> Address:
    """Reads HOST, HOST:PORT or unix:PATH.

    Raises:
        ConfigError: the text is none of them.
    """
    host, colon, port = text.rpartition(":")
    if text.startswith(SOCKET):
        return Address(text, **trust)
    if not colon or text.endswith("]"):
        return Address(text.strip("[]"), **trust)
    if not host or "/" in host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{text}: expected HOST or HOST:PORT")
    return Address(host.strip("[]"), int(port), **trust)


def explain(error: grpc.RpcError, address: Address) -> LatecomerError:
    """Returns a failed call as an error of this platform."""
    code, details = error.code(), from_peer(error.details() or "")
    if "WRONG_VERSION_NUMBER" in details:
        return RefusedError(f"{address} does not speak TLS; give --plaintext")
    if code is grpc.StatusCode.UNAVAILABLE and _is_handshake(details, address):
        return RefusedError(
            f"{address}: no secure connection: the server's certificate is not trusted "
            f"here, or it wants one from this client (--ca, --certificate, --key): "
            f"{details}{address.by_the_way}"
        )
    if not address.is_encrypted and "Socket closed" in details:
        details += "; if the server speaks TLS, give --ca"
    match code:
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.DEADLINE_EXCEEDED:
            _, _, reason = details.rpartition(_NOT_REACHED)  # gRPC repeats the address
            text = f"{address} does not answer: {reason}{address.by_the_way}"
            return UnavailableError(text)
        case grpc.StatusCode.CANCELLED:
            return UnavailableError(f"{address} broke off: {details}")
        case grpc.StatusCode.INTERNAL:  # as if the call had never come
            return UnavailableError(f"{address} failed: {details}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if _TOO_LARGE not in details:
            return UnavailableError(f"{address} is busy: {details}")
        case grpc.StatusCode.NOT_FOUND:
            return OtherRunError(f"{address}: {details}")
        case grpc.StatusCode.FAILED_PRECONDITION | grpc.StatusCode.PERMISSION_DENIED:
            return RefusedError(f"{address}: {details}")
        case grpc.StatusCode.UNIMPLEMENTED:
            return RefusedError(
                f"{address} does not speak this protocol: an older server, or not a "
                f"federation: {details}"
            )
        case _:
            return ProtocolError(f"{address}: {code.name}: {details}")


def is_unanswered(error: BaseException | None) -> bool:
    """Returns whether a call ended without an answer: its connection may be dead."""
    codes = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED
    return isinstance(error, grpc.RpcError) and error.code() in codes


@contextmanager
def explaining(address: Address) -> Iterator[None]:
    """Turns errors of gRPC in the block into errors of this platform."""
    try:
        yield
    except grpc.RpcError as error:
        raise explain(error, address) from error


def _is_handshake(details: str, address: Address) -> bool:
    """Returns whether TLS failed, which only gRPC's text tells, apart from the host."""
    if not address.is_encrypted:
        return False
    said = details.replace(address.host, "").lower()
    # Not "handshake": a connection that times out is a "tcp handshaker shutdown".
    words = ("certificate", "verification", "ssl", "tls")
    return any(word in said for word in words)


def _check_certificates(address: Address) -> None:
    """Checks the files: with wrong ones gRPC would try to connect for ever."""
    try:
        if address.ca is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(address.ca)
    except ssl.SSLError as error:
        raise ConfigError(
            f"--ca {address.ca}: expected certificates in PEM format: "
            f"{error.reason or error}"
        ) from error
    if address.certificate is not None:
        names = f"--certificate {address.certificate} and --key {address.key}"
        require_pair(address.certificate, address.key, names)


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
