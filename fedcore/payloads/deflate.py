"""The body of a message in fewer bytes: DEFLATE, which every platform can read.

Deutsch, "DEFLATE Compressed Data Format Specification", RFC 1951: here without the
wrapping of RFC 1950, and without searching for repetitions. Updates have frequent
symbols, which Huffman codes shorten, and runs of equal bytes. Looking for more takes
many times as long and finds next to nothing. An arithmetic coder would save a few
hundredths more.

Numbers of several bytes are taken apart first: byte 0 of all of them, then byte 1, and
so on, since exponents are alike and the last bits are noise.
"""

import zlib
from collections.abc import Sequence

import numpy as np

from fedcore.errors import PayloadError
from fedcore.typing import Bytes

LEAST = 128  # bytes; with fewer there is too little to save
_RAW = -15  # a window of 2^15 bytes, and no header
_OWN_CODE = 1 << 7  # bytes from which on a part has a Huffman code of its own
_SAMPLE = 1 << 13  # bytes that are tried first
_CHUNKS = 8  # of a part that make its sample
_PARTS = 64  # up to this number, each part has samples of its own
_WORTH = 1 / 32  # the least share of the bytes to save


def deflate(parts: Sequence[Bytes], stride: int) -> bytes | None:
    """Deflates bytes; None if there is little to save.

    Args:
        parts: the bytes, in pieces.
        stride: the bytes of a number.
    """
    pieces = _apart(b"".join(parts), stride) if stride > 1 else parts
    views = [memoryview(piece).cast("B") for piece in pieces]
    size = sum(map(len, views))
    if size < LEAST:
        return None
    few = size <= _SAMPLE
    sample = views if few else _samples(views, _SAMPLE / size)
    strategy, found = zlib.Z_RLE, _deflate(sample, zlib.Z_RLE)
    looked_at = sum(map(len, sample))
    if len(found) > (1 - _WORTH) * looked_at:
        return None
    if len(found) < looked_at / 2:  # runs may be in the way of a frequent byte
        without = _deflate(sample, zlib.Z_HUFFMAN_ONLY)
        if len(without) < len(found):
            strategy, found = zlib.Z_HUFFMAN_ONLY, without
    return found if few else _deflate(views, strategy)


def inflate(data: Bytes, size: int, stride: int) -> memoryview:
    """Returns the ``size`` bytes that were deflated. No more are allocated.

    Raises:
        PayloadError: the data are not deflated bytes of this size.
    """
    stream = zlib.decompressobj(_RAW)
    try:
        found = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise PayloadError(f"no deflated message: {error}") from error
    if len(found) != size or not stream.eof:
        raise PayloadError(f"no {size} bytes in the deflated message")
    if stream.unused_data:
        left = len(stream.unused_data)
        raise PayloadError(f"{left} bytes too many at the end of the message")
    return memoryview(found) if stride == 1 else _together(found, stride)


def _apart(data: bytes, stride: int) -> list[Bytes]:
    """Returns the bytes of the numbers, one list for each place in a number."""
    whole = np.frombuffer(data, np.uint8)
    return [np.asarray(whole[at::stride], order="C").data for at in range(stride)]


def _together(data: bytes, stride: int) -> memoryview:
    """Returns the reverse of :func:`_apart`."""
    apart, whole = np.frombuffer(data, np.uint8), np.empty(len(data), np.uint8)
    done = 0
    for at in range(stride):
        places = whole[at::stride]
        places[:] = apart[done : done + len(places)]
        done += len(places)
    return whole.data.toreadonly()


def _deflate(views: Sequence[memoryview], strategy: int) -> bytes:
    stream = zlib.compressobj(6, zlib.DEFLATED, _RAW, 8, strategy)
    made, since = [], 0
    for view in views:
        if min(since, len(view)) >= _OWN_CODE:
            made.append(stream.flush(zlib.Z_BLOCK))
            since = 0
        made.append(stream.compress(view))
        since += len(view)
    return b"".join([*made, stream.flush()])


def _samples(views: Sequence[memoryview], share: float) -> list[memoryview]:
    """Returns a share of each part, or of all as one where there are too many parts."""
    if len(views) > _PARTS:
        views = [memoryview(b"".join(views))]
    return [_sample(view, share) for view in views]


def _sample(view: memoryview, share: float) -> memoryview:
    """Returns a share of a part, in chunks spread over it."""
    chunk = int(share * len(view)) // _CHUNKS
    starts = [(len(view) - chunk) * place // (_CHUNKS - 1) for place in range(_CHUNKS)]
    return memoryview(b"".join(view[at : at + chunk] for at in starts))
