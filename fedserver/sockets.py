"""Bytes at the sockets, as the kernel counts them, and whose they are.

gRPC tells calls and messages of a connection, and no bytes. The kernel does, with
``TCP_INFO``. A duplicate of each accepted connection's descriptor is held here, so
that its last numbers can be read after gRPC has closed its own; gRPC shuts a
connection down before, so a duplicate keeps none open.

Counted are the bytes of the stream, with all that HTTP/2 and TLS add. Not counted
are what was sent again, the headers of TCP and IP, and sockets of this machine's file
system. The end of a stream counts as one byte. Elsewhere than on Linux, nothing is.
"""

import asyncio
import contextlib
import ipaddress
import os
import resource
import socket
import stat
import struct
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from fedcore.typing import Seconds
from fedrun.traffic import OTHERS, Traffic

Address = tuple[str, int]
_DESCRIPTORS = Path("/proc/self/fd")
_TCP = ("ipv4:", "ipv6:")
_FEW = 100  # with more of them, those that come within this time are
_LOOK: Seconds = 0.05  # looked for together: a look costs 5 microseconds each,
_REST = 20  # and looking takes at most one part in so many of the time
_SHARE = 4  # of all descriptors, one in so many may be a duplicate
_RESERVED = 256  # descriptors of all else: the journal, its segments, the evaluator
_MANY = "\0"  # an owner: several clients came by this connection
# struct tcp_info of linux/tcp.h: where the 64-bit counters are
_ACKED_RECEIVED, _SENT_RETRANS = 120, 200
_INFO_BYTES = 256
_OPEN, _CLOSED = (1, 3), 7  # its states: established or about to be; closed
_PATIENCE = 5  # readings in which a connection may be half closed


@dataclass(slots=True)
class _Peer:
    """Who calls from an address."""

    address: Address
    cid: str


@dataclass(slots=True)
class _Connection:
    """A duplicate, and what was read from it so far."""

    duplicate: socket.socket
    address: Address
    up: int = 0
    down: int = 0
    ending: int = 0  # readings since it was last open


class Sockets:
    """All connections of one listening port. Used on the event loop alone."""

    def __init__(self, traffic: Traffic, port: int) -> None:
        self._traffic, self._port = traffic, port
        self._peers: dict[str, _Peer] = {}  # by the names that gRPC gives them
        self._held: dict[int, _Connection] = {}  # by the kernel's number of the socket
        self._is_looking = False
        self._rest: Seconds = _LOOK
        self._most = _descriptors() // _SHARE
        self.is_measured = _DESCRIPTORS.is_dir() and hasattr(socket, "TCP_INFO")
        self.missed = 0  # connections that were gone before they were found

    def serve(self, peer: str, cid: str) -> None:
        """A call has come from a client, or from nobody in particular."""
        known = self._peers.get(peer)
        if known is not None:
            if cid not in (known.cid, OTHERS):
                known.cid = cid if known.cid == OTHERS else _MANY
        elif self.is_measured and peer.startswith(_TCP) and not self.is_full:
            self._peers[peer] = _Peer(address_of(peer), cid)
            self._is_looking = True
            if len(self._held) < _FEW:
                self._look()
            else:
                asyncio.get_running_loop().call_later(self._rest, self._look)

    @property
    def is_full(self) -> bool:
        """Whether more connections than these would take too many descriptors."""
        return len(self._held) >= self._most

    @property
    def connections(self) -> int:
        """How many are measured now."""
        return len(self._held)

    def read(self) -> None:
        """Brings the book up to date."""
        if self._is_looking:
            self._look()
        names = {peer.address: name for name, peer in self._peers.items()}
        descriptors = cache(lambda: Counter(number for _, number in _sockets()))
        for number, connection in list(self._held.items()):
            name = names.get(connection.address, "")
            peer = self._peers.get(name)
            owner = OTHERS if peer is None or peer.cid == _MANY else peer.cid
            is_open = self._read(connection, owner)
            if connection.ending >= _PATIENCE and descriptors()[number] > 1:
                connection.ending = 0  # gRPC has not closed it yet
            if not is_open or connection.ending >= _PATIENCE:
                connection.duplicate.close()
                del self._held[number]
                self._peers.pop(name, None)

    def hang_up(self, peer: str) -> None:
        """Ends the connection of a peer; what gRPC holds for its calls is freed."""
        known = self._peers.get(peer)
        for connection in self._held.values():
            if known is not None and connection.address == known.address:
                with contextlib.suppress(OSError):  # it has ended by itself
                    connection.duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Reads all for the last time; calls that end later are not looked for."""
        self.read()
        self.is_measured = self._is_looking = False
        for connection in self._held.values():
            connection.duplicate.close()
        self._held.clear()
        self._peers.clear()

    def _read(self, connection: _Connection, owner: str) -> bool:
        """What has crossed since the last time; False if it was the last one."""
        state, up, down = tcp_bytes(connection.duplicate)
        self._traffic.cross(owner, up - connection.up, down - connection.down)
        connection.up, connection.down = up, down
        connection.ending = 0 if state in _OPEN else connection.ending + 1
        return state != _CLOSED

    # ------------------------------------------------------------------ looking

    def _look(self) -> None:
        """Finds connections that are new."""
        if not self._is_looking:
            return
        self._is_looking, began = False, time.monotonic()
        for descriptor, number in _sockets():
            if self.is_full:
                break
            if number not in self._held:
                with contextlib.suppress(OSError):  # it was closed meanwhile
                    self._hold(os.dup(descriptor))
        found = {connection.address for connection in self._held.values()}
        for name in [n for n, p in self._peers.items() if p.address not in found]:
            del self._peers[name]
            self.missed += 1
        self._rest = max(_LOOK, _REST * (time.monotonic() - began))

    def _hold(self, descriptor: int) -> None:
        """Keeps a duplicate if it is of a connection that was accepted here."""
        try:
            duplicate = socket.socket(fileno=descriptor)
        except OSError:  # it was a socket a moment ago
            os.close(descriptor)
            return
        is_kept = False
        try:
            number = os.fstat(descriptor).st_ino
            if duplicate.family not in (socket.AF_INET, socket.AF_INET6):
                return
            if duplicate.getsockname()[1] == self._port and number not in self._held:
                host, port = duplicate.getpeername()[:2]
                connection = _Connection(duplicate, (_plain(host), int(port)))
                self._held[number], is_kept = connection, True
        finally:
            if not is_kept:
                duplicate.close()


def _sockets() -> Iterator[tuple[int, int]]:
    """The descriptors of all sockets of this process, and their numbers."""
    for name in os.listdir(_DESCRIPTORS):
        with contextlib.suppress(OSError):
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                yield int(name), status.st_ino


def most_connections() -> int:
    """For how many there are descriptors, beside the duplicates and all else."""
    all_of_them = _descriptors()
    left = all_of_them - all_of_them // _SHARE - _RESERVED
    return max(left, all_of_them // _SHARE)


def _descriptors() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def allow_many() -> None:
    """As many descriptors as this process may have, since each connection takes two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # no system grants more than it has
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def tcp_bytes(connection: socket.socket) -> tuple[int, int, int]:
    """The state of a connection, and the bytes that it has received and sent."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    acked, received = struct.unpack_from("<QQ", info, _ACKED_RECEIVED)
    if len(info) < _SENT_RETRANS + 16:  # a kernel before 4.19
        return info[0], received, acked
    sent, again = struct.unpack_from("<QQ", info, _SENT_RETRANS)
    return info[0], received, sent - again


def address_of(peer: str) -> Address:
    """The address in gRPC's name of a peer: ``ipv4:10.0.0.1:5000``."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    """An address without a zone; one of IPv4 as such."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
