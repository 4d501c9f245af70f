import contextlib
import zlib
from itertools import pairwise

import pytest
from fedwire.frames import (
    CHUNK,
    Part,
    chunk_frames,
    header_frame,
    peek_chunk,
    read_chunk,
    read_header,
    read_reply,
    reply_frame,
)
from fedwire.v1 import federation_pb2 as pb
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedcore.errors import ProtocolError, UnavailableError

PARTS = st.lists(st.binary(max_size=40), max_size=5)


@given(PARTS, st.integers(0, 200))
def test_the_chunks_of_an_upload_are_its_bytes_from_any_offset(
    parts: list[bytes], start: int
) -> None:
    whole = b"".join(parts)
    assert joined(list(chunk_frames(parts, start)), start) == whole[start:]


@pytest.mark.parametrize("start", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5])
@pytest.mark.parametrize("cuts", [[], [CHUNK], [7, CHUNK + 1, 2 * CHUNK]])
def test_large_payloads_travel_in_chunks_of_a_mebibyte(
    start: int, cuts: list[int]
) -> None:
    whole = bytes(range(251)) * (1 + 5 * CHUNK // 502)
    marks = [0, *cuts, len(whole)]
    parts = [whole[a:b] for a, b in pairwise(marks)]
    frames = list(chunk_frames(parts, start))
    sizes = [len(read_chunk(frame).data) for frame in frames]
    assert joined(frames, start) == whole[start:]
    assert set(sizes[:-1]) <= {CHUNK}


@given(PARTS)
def test_a_chunk_is_what_protobuf_reads_too(parts: list[bytes]) -> None:
    for frame in chunk_frames(parts):
        chunk, part = pb.PushFrame.FromString(frame).chunk, read_chunk(frame)
        assert (chunk.offset, chunk.data) == (part.offset, bytes(part.data))
        assert chunk.crc32 == zlib.crc32(part.data)


@given(st.integers(0, 2**64 - 1), st.binary(min_size=1, max_size=300))
def test_a_chunk_that_protobuf_wrote_is_read(offset: int, data: bytes) -> None:
    chunk = pb.Chunk(offset=offset, crc32=zlib.crc32(data), data=data)
    frame = pb.PullFrame(chunk=chunk).SerializeToString()
    part = read_chunk(frame)
    assert (part.offset, bytes(part.data)) == (offset, data)


@given(st.binary(max_size=100))
@example(b"")
@example(b"\x12")
@example(b"\x12\xff")
@example(b"\x12" + b"\xff" * 20)
@example(b"\x12\x02\x1a\x7f")
@example(b"\x12\x03\x15\0\0")
@settings(max_examples=200)
def test_any_bytes_are_a_frame_or_a_protocol_error(frame: bytes) -> None:
    for read in (read_chunk, read_header, read_reply):
        with contextlib.suppress(ProtocolError):
            read(frame)


@given(st.binary(min_size=1, max_size=60), st.data())
@settings(max_examples=100)
def test_a_damaged_chunk_is_noticed(data: bytes, draw: st.DataObject) -> None:
    [frame] = chunk_frames([data])
    bit = draw.draw(st.integers(0, 8 * len(frame) - 1))
    harmed = bytearray(frame)
    harmed[bit // 8] ^= 1 << bit % 8
    try:
        part = read_chunk(bytes(harmed))
    except ProtocolError:
        return
    assert part.data == data  # the offset was hit: the receiver compares it


@given(st.binary(min_size=1, max_size=60))
def test_a_chunk_cut_short_is_noticed(data: bytes) -> None:
    [frame] = chunk_frames([data])
    for end in range(len(frame)):
        with pytest.raises(ProtocolError):
            read_chunk(frame[:end])
    with pytest.raises(ProtocolError):
        read_chunk(frame + b"\0")


def test_a_chunk_that_claims_another_length_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a chunk of 100 bytes in 3"):
        read_chunk(b"\x12\x64abc")


def test_an_unknown_field_of_a_chunk_is_named() -> None:
    with pytest.raises(ProtocolError, match="unknown field 4 in a chunk"):
        read_chunk(b"\x12\x02\x20\x01")


def test_a_wrong_checksum_names_the_place_and_is_worth_another_try() -> None:
    frame = pb.PushFrame(chunk=pb.Chunk(offset=77, crc32=1, data=b"a"))
    with pytest.raises(UnavailableError, match="checksum of the chunk at byte 77"):
        read_chunk(frame.SerializeToString())


def test_a_chunk_may_be_looked_at_without_its_checksum() -> None:
    frame = next(iter(chunk_frames([b"0123"], 1)))
    assert peek_chunk(frame) == read_chunk(frame) == Part(1, memoryview(b"123"))
    damaged = frame[:-1] + b"x"
    assert bytes(peek_chunk(damaged).data) == b"12x"
    with pytest.raises(UnavailableError):
        read_chunk(damaged)
    with pytest.raises(ProtocolError, match="expected a chunk"):
        peek_chunk(b"")


def test_the_first_frame_must_be_the_head() -> None:
    [chunk] = chunk_frames([b"abc"])
    with pytest.raises(ProtocolError, match="first frame of a push must be its header"):
        read_header(chunk)
    with pytest.raises(ProtocolError, match="first frame of an answer must be its"):
        read_reply(chunk)
    with pytest.raises(ProtocolError, match="the first frame cannot be read"):
        read_header(b"\xff\xff")
    with pytest.raises(ProtocolError, match="the first frame cannot be read"):
        read_reply(b"\xff\xff")


def test_heads_survive_the_wire() -> None:
    header, reply = (
        pb.PushHeader(key=b"ann", size=3),
        pb.PullReply(version=9, done=True),
    )
    assert read_header(header_frame(header)) == header
    assert read_reply(reply_frame(reply)) == reply
    for read, head in [
        (read_chunk, header_frame(header)),
        (read_chunk, reply_frame(reply)),
    ]:
        with pytest.raises(ProtocolError, match="expected a chunk"):
            read(head)


def joined(frames: list[bytes], start: int) -> bytes:
    """The bytes of chunks that follow each other."""
    whole = b""
    for frame in frames:
        part = read_chunk(frame)
        assert part.offset == start + len(whole)
        whole += part.data
    return whole
