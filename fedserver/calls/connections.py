"""Limits the number of TCP connections, and ends single ones."""

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
_SUBNET = 64  # bits of an IPv6 address that a network has, and not its machines
_GATHER: Seconds = 0.1  # connections to end within this time share one search
_RESERVED = 256  # descriptors of all else: the journal, its segments, the evaluator
_LEAST = 4  # connections get at least one in four of all descriptors


class Disconnector:
    """Ends connections whose clients do not take what they are sent.

    gRPC keeps what it could not send until the connection ends, and has no call to end
    one. The kernel has: the connection's descriptor is found by the address of its
    client, and shut down. Elsewhere than on Linux nothing is ended.
    """

    def __init__(self, port: int) -> None:
        """``port`` is the one on which the server listens."""
        self._port = port
        self._unwanted: set[Address] = set()

    def end(self, peer: str) -> None:
        """Ends the connection of a peer, which is named as gRPC names it.

        The search runs on a thread and looks at each descriptor once (5 microseconds
        each) for all connections that are to end. Must be called on the event loop.
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
            with contextlib.suppress(OSError):  # it was closed meanwhile
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    # A duplicate cannot become another file while it is looked at.
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
    """Returns for how many connections there are descriptors beside all else."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(descriptors - _RESERVED, descriptors // _LEAST)


def allow_many() -> None:
    """Raises this process's limit on descriptors as far as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # no system grants more than it has
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def address_of(peer: str) -> Address:
    """Returns the address in gRPC's name of a peer: ``ipv4:10.0.0.1:5000``."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _plain(host.strip("[]")), int(port)


def neighbours_of(peer: str) -> str:
    """Returns which peers may be one machine, from gRPC's name of a peer.

    That is an address of IPv4, or the first 64 bits of one of IPv6, of which a machine
    may have all; for a peer on this machine's own socket it is the socket.
    """
    if not peer.startswith(_TCP):
        return peer
    host, _ = address_of(peer)
    if ":" not in host:
        return host
    return str(ipaddress.ip_network((host, _SUBNET), strict=False))


def _plain(host: str) -> str:
    """Returns an address without its zone, and as IPv4 if an IPv6 one holds it."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
