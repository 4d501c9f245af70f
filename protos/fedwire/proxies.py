"""The HTTP proxy through which the environment says that a server is reached.

The variables and their order are gRPC's. The decision is made here, so that a check and
the calls after it take the same way, and a proxy that cannot be used is an error.
"""

import ipaddress
import os
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from fedcore.errors import ConfigError
from fedcore.hosts import is_this_machine

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  # the first that is set counts
EXCEPTIONS = ("no_grpc_proxy", "no_proxy")  # likewise
_DEFAULT_PORT = 80


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy, which opens tunnels on the request ``CONNECT``."""

    host: str
    port: int
    variable: str
    """Where the environment names it."""
    credentials: str = field(default="", repr=False)
    """``NAME:PASSWORD`` as in a URL; empty: it asks for none."""

    def __str__(self) -> str:
        """Returns its URL without a password, and the variable that names it."""
        return f"http://{self._authority} ({self.variable})"

    @property
    def url(self) -> str:
        """The URL that gRPC is given."""
        secret = f"{self.credentials}@" if self.credentials else ""
        return f"http://{secret}{self._authority}"

    @property
    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def request(self, target: str) -> bytes:
        """Returns the request for a tunnel to ``HOST:PORT``."""
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.credentials:
            secret = b64encode(unquote(self.credentials).encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {secret}")
        return "\r\n".join([*lines, "", ""]).encode()


def proxy_for(host: str) -> Proxy | None:
    """Returns the proxy for a host; None: it is reached directly, as this machine is.

    Raises:
        ConfigError: the environment names something else than an HTTP proxy.
    """
    variable = next((name for name in PROXIES if name in os.environ), "")
    url = os.environ.get(variable, "").strip()
    if not url or is_this_machine(host) or _is_excepted(host):
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        return _read(parts, variable)
    except ValueError:
        pass
    raise ConfigError(
        f"{variable}: expected a proxy http://HOST:PORT; {EXCEPTIONS[-1]}={host} goes "
        f"around it, and {PROXIES[0]}= uses none"
    )


def _read(parts: SplitResult, variable: str) -> Proxy:
    """Reads the URL of a proxy.

    Raises:
        ValueError: it is none.
    """
    port = _DEFAULT_PORT if parts.port is None else parts.port
    if parts.scheme != "http" or not parts.hostname or not port:
        raise ValueError
    credentials, at, _ = parts.netloc.rpartition("@")
    return Proxy(parts.hostname, port, variable, credentials if at else "")


def _is_excepted(host: str) -> bool:
    """Returns whether the environment takes a host out.

    An entry is the end of a name, a subnet, or ``*`` for all. GRPC looks again, so what
    it takes out must be taken out here as well.
    """
    names = (os.environ[name] for name in EXCEPTIONS if name in os.environ)
    entries = filter(None, map(str.strip, next(names, "").split(",")))
    return any(
        host.lower().endswith(entry.lstrip("*.").lower()) or _is_within(host, entry)
        for entry in entries
    )


def _is_within(host: str, subnet: str) -> bool:
    try:
        network = ipaddress.ip_network(subnet, strict=False)
        return ipaddress.ip_address(host) in network
    except ValueError:
        return False
