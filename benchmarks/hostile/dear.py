"""Small messages with a high cost: the worst case of each format for a few bytes.

Long bodies of equal bytes are deflated to a thousandth, and a few bytes may stand for a
whole model.
"""

import math
import struct
import zlib
from collections.abc import Callable

import numpy as np

from fedcore.payloads import formats
from fedcore.payloads.rotated import blocks

_HEADER, _DEFLATED = struct.Struct("<BBI"), struct.Struct("<BI")
_CODES = {form.name: form.code for form in formats()}
Make = Callable[[int], bytes]


def small(form: str, dim: int, body: bytes) -> bytes:
    """A message with its body deflated, as small as it gets."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    found = stream.compress(body) + stream.flush()
    head = _HEADER.pack(2, _CODES[form], dim) + _DEFLATED.pack(1, len(body))
    return head + found


def _most_square(dim: int) -> tuple[int, int]:
    rows = next(r for r in range(math.isqrt(dim), 0, -1) if dim % r == 0)
    return rows, dim // rows


def low_rank(dim: int) -> bytes:
    """As many products as there may be for each value."""
    rows, columns = _most_square(dim)
    rank = min(64, rows, columns, dim // (rows + columns))
    factors = np.full(rank * (rows + columns), 1e-9, "<f4").tobytes()
    return small("low_rank", dim, struct.pack("<IB", rows, rank) + factors)


def dense(dim: int) -> bytes:
    """All values, equal and deflated."""
    return small("dense", dim, np.full(dim, 1e-9, "<f4").tobytes())


def seeded(dim: int) -> bytes:
    """Half of the places, found from a seed."""
    count = dim // 2
    values = np.full(count, 1e-9, "<f4").tobytes()
    return small("seeded", dim, struct.pack("<QI", 1, count) + values)


def sparse(dim: int) -> bytes:
    """Half of the places, as gaps of nothing."""
    count = dim // 2
    gaps = (
        bytes([3, 0]) + np.packbits(np.ones(count, bool), bitorder="little").tobytes()
    )
    values = np.zeros(count, "<f4").tobytes()
    return small("sparse", dim, struct.pack("<I", count) + gaps + values)


def rotated(dim: int) -> bytes:
    """A rotation of all values, of one bit each."""
    padded = sum(blocks(dim))
    body = struct.pack("<Q", 7) + _HEADER.pack(1, _CODES["sign"], padded)
    body += struct.pack("<Hf", 1, 1e-9) + bytes((padded + 7) // 8)
    return small("rotated", dim, body)


def semi_discrete(dim: int) -> bytes:
    """As many terms as there may be, each over all of a matrix, and all zero."""
    rows, columns = _most_square(dim)
    terms = (dim - 1) // (rows + columns)
    body = struct.pack("<b", -100) + _varint(terms) + bytes(terms) + _varint(rows)
    body += bytes(terms) + _varint(0) + bytes([3, 0])  # no factor but zeros
    return small("semi_discrete", dim, body)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number % 128 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


DEAR: dict[str, Make] = {
    each.__name__: each
    for each in (low_rank, semi_discrete, rotated, seeded, sparse, dense)
}
