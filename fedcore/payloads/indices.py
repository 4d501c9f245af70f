"""The places of a sparse message's values, in the fewest bytes.

``u8 coding`` and then, for k ascending indices below D: 0, ``u16[k]``; 1, ``u32[k]``;
2, a bitmap of D bits, the lowest bit of a byte first; 3, ``u8`` b and the gaps in
Golomb-Rice code with b low bits (:mod:`fedcore.payloads.rice`), where a gap is the
number of coordinates between two indices, and before the first. A sender takes the
smallest, and of equals the first of raw numbers, gaps, bitmap. Gaps take about
8.1 bits an index at a density of 1 %, raw numbers 16 or 32.
"""

import numpy as np

from fedcore.errors import PayloadError
from fedcore.kernels import rice
from fedcore.payloads.base import Reader, little
from fedcore.payloads.rice import best_width, unpack_rice
from fedcore.typing import Bytes, Indices

_U16, _U32, _BITMAP, _GAPS = 0, 1, 2, 3


def pack_indices(indices_K: Indices, dim: int) -> list[Bytes]:
    """Packs ascending indices below ``dim``, in the smallest of the codings."""
    raw = _U16 if dim <= 1 << 16 else _U32
    gaps_K = _gaps(indices_K)
    width, coded = best_width(gaps_K)
    sizes = {
        raw: len(indices_K) * (2 if raw == _U16 else 4),
        _GAPS: 1 + coded,
        _BITMAP: (dim + 7) // 8,
    }
    coding = min(sizes, key=lambda name: sizes[name])
    if coding == _GAPS:
        return [bytes([_GAPS, width]), *rice(gaps_K, width)]
    if coding == _BITMAP:
        marks = np.zeros(dim, bool)
        marks[indices_K] = True
        return [bytes([_BITMAP]), np.packbits(marks, bitorder="little").data]
    return [bytes([raw]), little(indices_K, "u2" if raw == _U16 else "u4")]


def unpack_indices(reader: Reader, count: int, dim: int) -> Indices:
    """Reads what :func:`pack_indices` wrote, and checks every index.

    Raises:
        PayloadError: these are no ``count`` ascending indices below ``dim``.
    """
    if count > dim:
        raise PayloadError(f"{count} entries in a message of {dim} values")
    coding = reader.number("B")
    if coding == _GAPS:
        indices = unpack_rice(reader, count, reader.number("B"), dim)
        indices += 1  # in place from here on: a copy may be larger than the model
        np.cumsum(indices, out=indices)
        indices -= 1
    elif coding == _BITMAP:
        packed = reader.array("u1", (dim + 7) // 8)
        indices = np.flatnonzero(np.unpackbits(packed, bitorder="little"))
    elif coding in (_U16, _U32):
        indices = reader.array("u2" if coding == _U16 else "u4", count).astype(np.int64)
    else:
        raise PayloadError(f"unknown index coding {coding}, expected 0, 1, 2 or 3")
    if len(indices) != count:
        raise PayloadError(f"expected {count} indices, got {len(indices)}")
    if count and (int(indices[-1]) >= dim or bool((indices[1:] <= indices[:-1]).any())):
        raise PayloadError(f"indices must ascend and lie below {dim}")
    return indices


def _gaps(indices_K: Indices) -> Indices:
    """Returns the number of coordinates that are left out before each of them."""
    gaps_K = np.array(indices_K, np.int64)
    gaps_K[1:] -= indices_K[:-1]
    gaps_K[1:] -= 1
    return gaps_K
