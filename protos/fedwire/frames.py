"""Frames of a stream: protocol buffers whose large bytes are not copied twice.

On the wire a frame is an ordinary ``PushFrame`` or ``PullFrame``, which any protobuf
stub reads and writes. A stub would copy a ``bytes`` field of 1 MiB on every access, so
chunks are written and read by hand here.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from fedcore.errors import ProtocolError, UnavailableError
from fedcore.typing import Bytes
from fedwire.texts import clean
from fedwire.v1.federation_pb2 import PullFrame, PullReply, PushFrame, PushHeader

CHUNK = 1 << 20  # measured: the fastest between 64 KiB and 4 MiB
FIRST = 1 << 15  # while the link's speed is unknown: 1 kB/s takes it in half a minute
_HEAD, _CHUNK = 0x0A, 0x12  # tags of the two kinds of frame
_OFFSET, _CRC, _DATA = 0x08, 0x15, 0x1A  # tags of a chunk's fields
_CRC_FIELD = struct.Struct("<BI")
Frame = TypeVar("Frame", PushFrame, PullFrame)


class Part(NamedTuple):
    """A piece of a larger message."""

    offset: int
    data: memoryview


def header_frame(header: PushHeader) -> bytes:
    """Returns the first frame of a push."""
    return PushFrame(header=header).SerializeToString()


def reply_frame(reply: PullReply) -> bytes:
    """Returns the first frame of a pull's answer."""
    return PullFrame(reply=reply).SerializeToString()


def read_header(frame: bytes) -> PushHeader:
    """Returns the header in the first frame of a push.

    Raises:
        ProtocolError: the frame holds no header.
    """
    return _read(PushFrame, frame, "a push", "header").header


def read_reply(frame: bytes) -> PullReply:
    """Returns the reply in the first frame of a pull's answer; its texts are short.

    Raises:
        ProtocolError: the frame holds no reply.
    """
    return clean(_read(PullFrame, frame, "an answer", "reply").reply)


def _read(kind: type[Frame], frame: bytes, whole: str, content: str) -> Frame:
    try:
        read = kind.FromString(frame)
    except DecodeError as error:
        raise ProtocolError(f"the first frame cannot be read: {error}") from error
    if read.WhichOneof("kind") != content:
        raise ProtocolError(f"the first frame of {whole} must be its {content}")
    return read


def chunk_frames(
    parts: Iterable[Bytes], start: int = 0, most: Callable[[], int] = lambda: CHUNK
) -> Iterator[bytes]:
    """Yields frames with the bytes of ``parts`` from byte ``start`` on.

    ``most`` returns how many bytes the next frame may have, up to 1 MiB.
    """
    offset, skip = start, start
    waiting: list[memoryview] = []
    size, limit = 0, most()
    for part in parts:
        view = memoryview(part).cast("B")
        if skip >= len(view):
            skip -= len(view)
            continue
        view, skip = view[skip:], 0
        while len(view):
            piece = view[: limit - size]
            waiting.append(piece)
            size += len(piece)
            view = view[len(piece) :]
            if size == limit:
                yield _chunk_frame(offset, waiting, size)
                offset += size
                waiting, size, limit = [], 0, most()
    if size:
        yield _chunk_frame(offset, waiting, size)


def growing() -> Callable[[], int]:
    """Sizes of chunks that double from the smallest to 1 MiB.

    A chunk counts only once it is whole, so a slow link never has to carry a chunk
    that is larger than all that arrived before.
    """
    size = FIRST // 2

    def next_size() -> int:
        nonlocal size
        size = min(2 * size, CHUNK)
        return size

    return next_size


def _chunk_frame(offset: int, pieces: list[memoryview], size: int) -> bytes:
    check = 0
    for piece in pieces:
        check = zlib.crc32(piece, check)
    fields = b"".join(
        [
            bytes([_OFFSET]),
            _varint(offset),
            _CRC_FIELD.pack(_CRC, check),
            bytes([_DATA]),
            _varint(size),
        ]
    )
    length = _varint(len(fields) + size)
    return b"".join([bytes([_CHUNK]), length, fields, *pieces])


def read_chunk(frame: bytes) -> Part:
    """Returns the chunk in a frame; its bytes are not copied.

    Raises:
        ProtocolError: the frame holds no chunk.
        UnavailableError: the chunk was damaged on its way, and can be sent again.
    """
    part, check = _chunk(frame)
    if zlib.crc32(part.data) != check:
        raise UnavailableError(
            f"the checksum of the chunk at byte {part.offset} is wrong"
        )
    return part


def peek_chunk(frame: bytes) -> Part:
    """Returns the chunk in a frame, without checking its checksum.

    Raises:
        ProtocolError: the frame holds no chunk.
    """
    return _chunk(frame)[0]


def _chunk(frame: bytes) -> tuple[Part, int]:
    """Returns the chunk in a frame, and the checksum that it should have."""
    view = memoryview(frame)
    if not len(view) or view[0] != _CHUNK:
        raise ProtocolError("expected a chunk")
    try:
        length, at = _read_varint(view, 1)
        if at + length != len(view):
            raise ProtocolError(f"a chunk of {length} bytes in {len(view) - at}")
        offset, check, data = 0, 0, view[:0]
        while at < len(view):
            tag, at = view[at], at + 1
            if tag == _OFFSET:
                offset, at = _read_varint(view, at)
            elif tag == _CRC:
                check, at = int.from_bytes(view[at : at + 4], "little"), at + 4
            elif tag == _DATA:
                size, at = _read_varint(view, at)
                data, at = view[at : at + size], at + size
            else:
                raise ProtocolError(f"unknown field {tag >> 3} in a chunk")
    except IndexError:
        raise ProtocolError("a chunk ends early") from None
    return Part(offset, data), check


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte, at = view[at], at + 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ProtocolError("a number is too long")
