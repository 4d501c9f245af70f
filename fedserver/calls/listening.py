"""Opens the server's port, and a socket for its operator."""

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
from fedwire.certificates import require_pair
from fedwire.connect import DEAD, MESSAGE_LIMIT, WINDOWS

from fedcore.errors import ConfigError, UnavailableError
from fedrun.config import ServerConfig
from fedrun.plain_files import write_text
from fedserver.calls.connections import most_connections

_log = logging.getLogger(__name__)
OPERATOR_FILE = "operator-socket"  # in a run's folder: the socket's address
# Clients behind NAT keep their connection open by pings; see docs/protocol.md.
OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_time_ms", 60_000),
    *DEAD,
    ("grpc.so_reuseport", 0),  # fail if the port is taken
    # No client stays silent for this long, because clients at least attend.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 300_000),
    *WINDOWS,
)


def options(config: ServerConfig) -> list[tuple[str, int]]:
    """Returns the gRPC options, with the limits on connections and calls."""
    most = min(config.max_connections, most_connections())
    return [
        *OPTIONS,
        ("grpc.max_allowed_incoming_connections", most),
        ("grpc.max_concurrent_streams", config.max_streams),
    ]


def bind(server: grpc.aio.Server, config: ServerConfig) -> int:
    """Makes a server listen on its configured address; returns the port.

    Raises:
        UnavailableError: the port is taken.
        ConfigError: a file of ``server.tls`` cannot be read.
    """
    try:
        if config.tls is None:
            return int(server.add_insecure_port(config.listen))
        return int(server.add_secure_port(config.listen, _credentials(config)))
    except RuntimeError as error:
        raise UnavailableError(
            f"cannot listen on {config.listen}: the port is taken or the address is "
            "not this machine's (server.listen)"
        ) from error


def _credentials(config: ServerConfig) -> grpc.ServerCredentials:
    assert config.tls is not None
    tls = config.tls
    pair = (_read(tls.key), _read(tls.certificate))
    names = f"server.tls: {tls.certificate} and {tls.key}"
    require_pair(tls.certificate, tls.key, names)
    ca = None if tls.client_ca is None else _read(tls.client_ca)
    return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)


def _read(path: Path) -> bytes:
    try:
        return bytes(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"server.tls: {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def open_operator_socket(folder: Path) -> Iterator[str | None]:
    """Makes a socket for the operator; yields its address, or None if that fails."""
    note = folder / OPERATOR_FILE
    with contextlib.ExitStack() as stack:
        try:
            private = tempfile.TemporaryDirectory(prefix="latecomer-")  # mode 700
            address = f"unix:{stack.enter_context(private)}/server"
            write_text(note, address, private=True)
        except OSError as error:
            _log.warning("the operator's socket cannot be made: %s", error)
            yield None
            return
        stack.callback(note.unlink, missing_ok=True)
        yield address
