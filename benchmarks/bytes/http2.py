"""The parts of a connection's bytes: HTTP/2 frames, gRPC messages and payload.

The proxy parses the bytes to attribute them; it changes none. It follows HPACK (RFC
7541) only as far as the name of a call needs; gRPC sends no Huffman codes.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from fedwire.frames import read_chunk, read_header, read_reply

Way = Literal["up", "down"]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER, PREFIX = 9, 5  # bytes of an HTTP/2 frame's header, and before a gRPC message
HEAD_TAG, CHUNK_TAG = 0x0A, 0x12  # how messages begin (fedwire/frames.py)
PAYLOAD, MESSAGES = "payload", "messages"  # in a tally: what is in messages, and around
COUNT = "count"  # likewise: of messages, not of bytes
_DATA, _HEADERS = 0, 1
KINDS = {1: "headers", 3: "resets", 4: "settings", 6: "pings", 7: "goodbyes"}
KINDS |= {8: "windows", 9: "headers"}
_STATIC, _TABLE, _PATHS = 61, 4096, (4, 5)

Tally = Counter[tuple[Way, str, str]]  # bytes by direction, call and kind
Judge = Callable[[int], int | None]


def never(size: int) -> int | None:
    """No message is cut."""
    return None


@dataclass
class Message:
    """The message that is arriving on a stream."""

    data: bytearray = field(default_factory=bytearray)
    cut_at: int | None = None  # the connection breaks at this byte of it

    @property
    def size(self) -> int:
        """How long it will be, with its prefix; 0 while that is not known."""
        if len(self.data) <= PREFIX:
            return 0
        return PREFIX + int.from_bytes(self.data[1:PREFIX], "big")

    @property
    def tag(self) -> int:
        """How it begins; 0 while that is not known."""
        return self.data[PREFIX] if len(self.data) > PREFIX else 0


class Calls:
    """The names of a connection's streams, from what its client sends."""

    def __init__(self) -> None:
        self._table: deque[tuple[bytes, bytes]] = deque()
        self._names: dict[int, str] = {}

    def name(self, stream: int) -> str:
        """The method that a stream calls."""
        return self._names.get(stream, "connection")

    def read(self, stream: int, block: bytes) -> None:
        """Takes a block of headers."""
        for key, value in self._fields(block):
            if key == b":path":
                self._names[stream] = value.rpartition(b"/")[2].decode()

    def _fields(self, block: bytes) -> Iterator[tuple[bytes, bytes]]:
        at = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                place, at = _integer(block, at, 7)
                yield self._entry(place)
            elif first & 0xE0 == 0x20:  # the size of the table, which stays
                _, at = _integer(block, at, 5)
            else:
                is_kept = bool(first & 0x40)
                place, at = _integer(block, at, 6 if is_kept else 4)
                key = self._entry(place)[0]
                if not place:
                    key, at = _text(block, at)
                value, at = _text(block, at)
                if is_kept:
                    self._keep(key, value)
                yield key, value

    def _entry(self, place: int) -> tuple[bytes, bytes]:
        if place > _STATIC:
            return self._table[place - _STATIC - 1]
        return (b":path" if place in _PATHS else b"", b"")

    def _keep(self, key: bytes, value: bytes) -> None:
        self._table.appendleft((key, value))
        while sum(32 + len(k) + len(v) for k, v in self._table) > _TABLE:
            self._table.pop()


class Stream:
    """One direction of a connection: whole frames, and what they are.

    ``judge`` is told the size of each message that holds payload, and says at which
    byte of it the connection is to break, or None.
    """

    def __init__(
        self, way: Way, calls: Calls, tally: Tally, judge: Judge = never
    ) -> None:
        self.is_cut = False
        self._way, self._calls, self._tally, self._judge = way, calls, tally, judge
        self._waiting = bytearray()
        self._messages: defaultdict[int, Message] = defaultdict(Message)
        self._judged: set[int] = set()
        self._began = way == "down"

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What is to be passed on: whole frames, up to where the connection breaks."""
        self._waiting += data
        if not self._began and len(self._waiting) >= len(PREFACE):
            self._began = True
            yield self._take(len(PREFACE), "connection", "preface")
        while self._began and not self.is_cut and len(self._waiting) >= HEADER:
            size = HEADER + int.from_bytes(self._waiting[:3], "big")
            if len(self._waiting) < size:
                return
            yield self._frame(size)

    def _frame(self, size: int) -> bytes:
        kind = self._waiting[3]
        number = int.from_bytes(self._waiting[5:HEADER], "big")
        if kind == _HEADERS and self._way == "up":
            self._calls.read(number, bytes(self._waiting[HEADER:size]))
        name = self._calls.name(number)
        if kind != _DATA:
            return self._take(size, name, KINDS.get(kind, "other"))
        header = self._take(HEADER, name, "frames")
        data = bytes(self._waiting[: size - HEADER])
        del self._waiting[: size - HEADER]
        excess = self._read(number, name, data)
        return header + data[: len(data) - excess]

    def _read(self, number: int, name: str, data: bytes) -> int:
        """Takes bytes of a stream; says how many of them lie behind a cut."""
        while data:
            message = self._messages[number]
            message.data += data
            size = message.size
            if self._holds_payload(name, message) and number not in self._judged:
                self._judged.add(number)
                message.cut_at = self._judge(size)
            if message.cut_at is not None and len(message.data) >= message.cut_at:
                self.is_cut = True
                return len(message.data) - message.cut_at
            if not size or len(message.data) < size:
                break
            data = bytes(message.data[size:])
            self._end(name, self._messages.pop(number), size)
        return 0

    def _holds_payload(self, name: str, message: Message) -> bool:
        head = (self._way, name) in (("up", "Push"), ("down", "Pull"))
        return message.tag == CHUNK_TAG or (head and message.tag == HEAD_TAG)

    def _end(self, name: str, message: Message, size: int) -> None:
        """A message has arrived."""
        payload = 0
        if self._holds_payload(name, message):
            payload = _payload_of(name, bytes(message.data[PREFIX:size]))
            self._tally[self._way, name, PAYLOAD] += payload
        self._tally[self._way, name, MESSAGES] += size - payload
        self._tally[self._way, name, COUNT] += 1

    def close(self) -> None:
        """Nothing more will come: what is not whole was sent in vain."""
        for number, message in self._messages.items():
            self._tally[self._way, self._calls.name(number), "broken"] += len(
                message.data
            )
        self._tally[self._way, "connection", "broken"] += len(self._waiting)
        self._messages.clear()
        self._waiting.clear()

    def _take(self, size: int, call: str, kind: str) -> bytes:
        taken = bytes(self._waiting[:size])
        del self._waiting[:size]
        self._tally[self._way, call, kind] += size
        return taken


def _payload_of(name: str, message: bytes) -> int:
    """Bytes of payload in a first frame or in a chunk."""
    if message[0] == CHUNK_TAG:
        return len(read_chunk(message).data)
    if name == "Push":
        return len(read_header(message).payload)
    return len(read_reply(message).patch)


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    number, at = block[at] & most, at + 1
    if number < most:
        return number, at
    shift = 0
    while True:
        byte, at = block[at], at + 1
        number += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    size, at = _integer(block, at, 7)
    return block[at : at + size], at + size
