"""Limits the number of TCP connections, and ends single connections."""

import asyncio
import contextlib
import ipaddress
import os
import resource
import socket
import stat
from pathlib import Path
from urllib.parse import unquote

from fedcore.typing import Seconds

Address = tuple[str, int]
_DESCRIPTORS = Path("/proc/self/fd")
_TCP = ("ipv4:", "ipv6:")
_SUBNET = 64  # length of a network's prefix in an IPv6 address
_GATHER: Seconds = 0.1  # connections that are to end within this time share one search
_RESERVED = 256  # descriptors for all else: the journal, its segments, the evaluator
_LEAST = 4  # connections get at least a quarter of all descriptors


class Disconnector:
    """Ends connections whose clients do not read what the server sends.

    gRPC keeps unsent data until the connection ends, and offers no call to end a
    connection. The kernel does: this class finds the connection's descriptor by the
    client's address, and shuts it down. It works on Linux only; elsewhere it does
    nothing.
    """

    def __init__(self, port: int) -> None:
        """Watches for connections to ``port``, on which the server listens."""
        self._port = port
        self._unwanted: set[Address] = set()

    def end(self, peer: str) -> None:
        """Ends the connection of a peer, given by gRPC's name for it.

        A thread searches all descriptors once (5 microseconds each) for all connections
        that are to end. Must be called on the event loop.
        """
        if not peer.startswith(_TCP) or not _DESCRIPTORS.is_dir():
            return
        if not self._unwanted:
            asyncio.get_running_loop().call_later(_GATHER, self._search)
        self._unwanted.add(address_of(peer))

    def _search(self) -> None:
        unwanted, self._unwanted = self._unwanted, set()
        asyncio.get_running_loop().run_in_executor(None, self._end_all, unwanted)

    def _end_all(self, unwanted: set[Address]) -> None:
        for name in os.listdir(_DESCRIPTORS):
            with contextlib.suppress(OSError):  # the connection was closed meanwhile
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    # A duplicated descriptor cannot become another file during the
                    # check.
                    with socket.socket(fileno=os.dup(int(name))) as connection:
                        self._end_if(connection, unwanted)

    def _end_if(self, connection: socket.socket, unwanted: set[Address]) -> None:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return
        if connection.getsockname()[1] == self._port:
            host, port = connection.getpeername()[:2]
            if (_plain(host), int(port)) in unwanted:
                connection.shutdown(socket.SHUT_RDWR)


def most_connections() -> int:
    """Returns the number of connections for which descriptors remain."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(descriptors - _RESERVED, descriptors // _LEAST)


def allow_many() -> None:
    """Raises this process's limit on descriptors as far as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # no system grants more than this
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def address_of(peer: str) -> Address:
    """Returns the address in gRPC's name of a peer: ``ipv4:10.0.0.1:5000``."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _plain(host.strip("[]")), int(port)


def neighbours_of(peer: str) -> str:
    """Returns a key for all peers that may be the same machine as this one.

    ``peer`` is gRPC's name of a peer. The key is the IPv4 address, or the first 64 bits
    of an IPv6 address, because one machine may have all addresses of that network. For
    a peer at this machine's own socket, the key is the socket.
    """
    if not peer.startswith(_TCP):
        return peer
    host, _ = address_of(peer)
    if ":" not in host:
        return host
    return str(ipaddress.ip_network((host, _SUBNET), strict=False))


def _plain(host: str) -> str:
    """Returns an address without its zone; an IPv4-mapped IPv6 one becomes IPv4."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
