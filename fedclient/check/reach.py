"""Reaches a server step by step: its name, port, certificate and protocol.

gRPC reports every failure as a failed connection; this module gives each its own
message.
"""

import contextlib
import hashlib
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fedwire.connect import SOCKET, Address
from fedwire.proxies import Proxy

from fedcore.errors import RefusedError, UnavailableError
from fedcore.typing import Seconds

PATIENCE: Seconds = 5.0
# The first bytes of an HTTP/2 client, with an empty frame of settings (RFC 9113, 3.4).
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
_HEAD, _SETTINGS = 9, 4  # bytes of a frame's head, and the type of the first frame
_TLS_ALERT = b"\x15\x03"
_MOST_SHOWN = 60  # bytes of another server's answer
_LONGEST_HEAD = 1 << 14  # bytes of a proxy's answer
_EXPIRED, _NOT_YET, _OTHER_NAMES = 10, 9, (62, 64)  # OpenSSL's codes of X.509 errors


class Certificate(NamedTuple):
    """The facts in a server's certificate."""

    names: tuple[str, ...]
    issuer: str
    until: datetime
    fingerprint: str
    """SHA-256, in hexadecimal."""


def resolve(address: Address) -> str:
    """Returns a sentence with the IP address of a host, or of the proxy in front of it.

    Raises:
        UnavailableError: the name is not known.
    """
    proxy = address.proxy
    if proxy is None:
        return f"{address.host} is {_resolve(address.host, address.port)}"
    found = _resolve(proxy.host, proxy.port)
    return f"the proxy {proxy} is {found}, and looks up {address.host}"


def _resolve(host: str, port: int) -> str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnavailableError(f"the name {host!r} is not known here: {reason}") from (
            error
        )
    return str(found[0][4][0])


def connect(address: Address) -> Seconds:
    """Connects once; returns the time that this took.

    Raises:
        UnavailableError: nothing listens there, or nothing answers.
    """
    began = time.monotonic()
    with _connect(address):
        return time.monotonic() - began


def certificate(address: Address) -> Certificate:
    """Returns the certificate of a server, after checking that it is trusted.

    Raises:
        RefusedError: it is not trusted, or the server does not use TLS.
        UnavailableError: the server closes the connection.
    """
    context = ssl.create_default_context(cafile=address.ca)
    if address.certificate is not None:
        context.load_cert_chain(address.certificate, address.key, password="")
    context.set_alpn_protocols(["h2"])
    with (
        _connect(address) as plain,
        _explaining(address, context),
        context.wrap_socket(plain, server_hostname=address.host) as secure,
    ):
        told, content = secure.getpeercert(), secure.getpeercert(True)
        if secure.selected_alpn_protocol() != "h2":
            raise RefusedError(
                f"{address} speaks TLS, but something else than gRPC behind it"
            )
    assert told is not None
    assert content is not None
    return Certificate(
        _names(told),
        _common(told.get("issuer", ())),
        datetime.fromtimestamp(ssl.cert_time_to_seconds(str(told["notAfter"])), UTC),
        hashlib.sha256(content).hexdigest(),
    )


def speak(address: Address) -> None:
    """Checks that a port without TLS speaks gRPC.

    Raises:
        RefusedError: it speaks another protocol.
        UnavailableError: it does not answer.
    """
    with _connect(address) as plain:
        said = b""
        try:
            plain.sendall(_PREFACE)
            while len(said) < _HEAD:
                got = plain.recv(_MOST_SHOWN)
                if not got:
                    break
                said += got
        except TimeoutError as error:
            raise UnavailableError(
                f"{address} takes the connection and says nothing"
            ) from error
        except OSError:
            pass  # it closed the connection
    if len(said) >= _HEAD and said[3] == _SETTINGS:
        return
    if said.startswith(_TLS_ALERT):
        raise RefusedError(f"{address} speaks TLS")
    answer = said.split(b"\n")[0][:_MOST_SHOWN].decode("ascii", "replace").strip()
    does = f"it answers {answer!r}" if answer else "it breaks off"
    raise RefusedError(f"{address} speaks something else than gRPC: {does}")


@contextlib.contextmanager
def _connect(address: Address) -> Iterator[socket.socket]:
    """Connects as gRPC does: through the proxy, if there is one."""
    proxy = address.proxy
    whom = str(address) if proxy is None else f"the proxy {proxy}"
    with contextlib.ExitStack() as closing:
        try:
            if address.is_socket:
                plain = socket.socket(socket.AF_UNIX)
                plain.settimeout(PATIENCE)
                plain.connect(address.host.removeprefix(SOCKET))
            else:
                first = address if proxy is None else proxy
                where = first.host, first.port
                plain = socket.create_connection(where, timeout=PATIENCE)
            closing.enter_context(plain)
            answer = "" if proxy is None else _tunnel(plain, proxy, address)
        except ConnectionRefusedError as error:
            place = f"at {address}" if proxy is None else f"where {whom} should be"
            raise UnavailableError(f"nothing listens {place}") from error
        except TimeoutError as error:
            raise UnavailableError(
                f"{whom} does not answer within {PATIENCE:g} s"
            ) from error
        except OSError as error:
            raise UnavailableError(
                f"{whom} cannot be reached: {error.strerror or error}"
            ) from error
        if answer:
            raise UnavailableError(f"{whom} opens no way to {address}: {answer}")
        yield plain


def _tunnel(plain: socket.socket, proxy: Proxy, address: Address) -> str:
    """Opens a tunnel through a proxy; returns the proxy's answer if it refuses."""
    plain.sendall(proxy.request(str(address)))
    said = b""
    while not said.endswith(b"\r\n\r\n") and len(said) < _LONGEST_HEAD:
        if not (got := plain.recv(1)):  # later bytes come from the server
            break
        said += got
    status = said.split(b"\n")[0][:_MOST_SHOWN].decode("ascii", "replace").strip()
    is_open = status.startswith("HTTP/1.") and status[8:10] == " 2"
    return "" if is_open else status or "it breaks off"


@contextlib.contextmanager
def _explaining(address: Address, context: ssl.SSLContext) -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise RefusedError(_distrust(address, context, error)) from error
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "WRONG_VERSION" in reason or "HTTP" in reason or "RECORD" in reason:
            raise RefusedError(f"{address} does not speak TLS") from error
        raise RefusedError(f"{address}: no secure connection: {reason}") from error
    except TimeoutError as error:
        raise UnavailableError(
            f"{address} takes the connection and says nothing"
        ) from error
    except OSError as error:
        raise UnavailableError(f"{address} breaks off: {error.strerror}") from error


def _distrust(
    address: Address, context: ssl.SSLContext, error: ssl.SSLCertVerificationError
) -> str:
    """Returns why a certificate is not trusted."""
    if error.verify_code == _EXPIRED:
        return f"the certificate of {address} has expired"
    if error.verify_code == _NOT_YET:
        return f"the certificate of {address} is not valid yet; is this clock right?"
    if error.verify_code in _OTHER_NAMES:
        names = ", ".join(_read_names_anyway(address, context)) or "no name"
        return (
            f"the certificate of {address} is valid for {names}, and not for "
            f"{address.host}"
        )
    trusted = f"--ca {address.ca}" if address.ca else "the authorities of this machine"
    return (
        f"the certificate of {address} is not signed by {trusted}: "
        f"{error.verify_message}"
    )


def _read_names_anyway(address: Address, context: ssl.SSLContext) -> tuple[str, ...]:
    """Returns the names in a certificate that is valid for other names."""
    context.check_hostname = False
    with (
        contextlib.suppress(OSError),
        _connect(address) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as secure,
    ):
        return _names(secure.getpeercert() or {})
    return ()


def _names(told: Any) -> tuple[str, ...]:
    found = tuple(str(value) for _, value in told.get("subjectAltName", ()))
    return found or tuple(filter(None, [_common(told.get("subject", ()))]))


def _common(subject: Any) -> str:
    parts = dict(pair for part in subject for pair in part)
    return str(parts.get("commonName") or parts.get("organizationName") or "")
