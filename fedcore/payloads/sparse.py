"""A few values and where they lie.

``u32 k, u8 coding, coded indices, float32[k]``; the coding is whichever is
smallest for the message: 0 ``u16[k]`` (models of up to 65,536 values), 1
``u32[k]``, 2 a bitmap of D bits, the lowest bit first. Indices ascend.
"""

import numpy as np

from fedcore.arrays import as_numpy, scatter
from fedcore.errors import PayloadError
from fedcore.payloads.base import Format, Layout, Payload, Reader, little, register
from fedcore.typing import Array, Bytes, Indices, Vector

_U16, _U32, _BITMAP = 0, 1, 2


def sparse_payload(dim: int, indices_K: Array, values_K: Array) -> Payload:
    """A message of ascending indices and their values; all others are zero."""
    return Payload("sparse", dim, {"indices": indices_K, "values": values_K})


def pack_indices(indices_K: Indices, dim: int) -> list[Bytes]:
    """Ascending indices below ``dim``, in the smallest of the codings."""
    count = len(indices_K)
    narrow = dim <= 1 << 16
    if (dim + 7) // 8 < count * (2 if narrow else 4):
        marks = np.zeros(dim, bool)
        marks[indices_K] = True
        return [bytes([_BITMAP]), np.packbits(marks, bitorder="little").data]
    return [
        bytes([_U16 if narrow else _U32]),
        little(indices_K, "u2" if narrow else "u4"),
    ]


def unpack_indices(reader: Reader, count: int, dim: int) -> Indices:
    """Reads what :func:`pack_indices` wrote, and checks every index."""
    coding = reader.number("B")
    if coding == _BITMAP:
        packed = reader.array("u1", (dim + 7) // 8)
        indices = np.flatnonzero(np.unpackbits(packed, bitorder="little"))
    elif coding in (_U16, _U32):
        indices = reader.array("u2" if coding == _U16 else "u4", count).astype(np.int64)
    else:
        raise PayloadError(f"unknown index coding {coding}, expected 0, 1 or 2")
    if len(indices) != count:
        raise PayloadError(f"expected {count} indices, got {len(indices)}")
    if count and (int(indices[-1]) >= dim or bool((indices[1:] <= indices[:-1]).any())):
        raise PayloadError(f"indices must ascend and lie below {dim}")
    return indices


def pack_entries(indices_K: Indices, values_K: Vector, dim: int) -> list[Bytes]:
    """Indices and what belongs to them."""
    head = np.array(len(indices_K), "<u4").tobytes()
    return [head, *pack_indices(indices_K, dim), little(values_K, "f4")]


def unpack_entries(reader: Reader, layout: Layout) -> dict[str, Array]:
    """Reads what :func:`pack_entries` wrote."""
    dim, count = sum(layout), reader.number("I")
    if count > dim:
        raise PayloadError(f"{count} entries in a message of {dim} values")
    return {
        "indices": unpack_indices(reader, count, dim),
        "values": reader.array("f4", count),
    }


def _pack(payload: Payload) -> list[Bytes]:
    indices_K = as_numpy(payload.arrays["indices"])
    values_K = as_numpy(payload.arrays["values"])
    if not values_K.all():  # a zero says nothing, but a negative one has a sign
        speaks_K = (values_K != 0) | np.signbit(values_K)
        indices_K, values_K = indices_K[speaks_K], values_K[speaks_K]
    return pack_entries(indices_K, values_K, payload.dim)


def _decode(payload: Payload) -> Array:
    return scatter(payload.dim, payload.arrays["indices"], payload.arrays["values"])


def _add(payload: Payload, out_D: Vector, scale: np.float32) -> None:
    out_D[payload.arrays["indices"]] += payload.arrays["values"] * scale


def _support(payload: Payload) -> Indices | None:
    indices: Indices = payload.arrays["indices"]
    return indices


SPARSE = register(Format("sparse", 1, _pack, unpack_entries, _decode, _add, _support))
