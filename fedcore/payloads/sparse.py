"""A few values and where they lie.

``u32 k``, indices (:mod:`fedcore.payloads.indices`), ``float32[k]``.
"""

import numpy as np

from fedcore.arrays import as_numpy
from fedcore.payloads.base import Format, Layout, Payload, Reader, little, register
from fedcore.payloads.indices import pack_indices, unpack_indices
from fedcore.typing import Array, Bytes, Indices, Vector


def sparse_payload(dim: int, indices_K: Array, values_K: Array) -> Payload:
    """Returns a message of ascending indices and their values; all others are zero."""
    return Payload("sparse", dim, {"indices": indices_K, "values": values_K})


def indices(payload: Payload) -> Array:
    """Returns the indices of a message that has them among its arrays."""
    return payload.arrays["indices"]


def pack_entries(indices_K: Indices, values_K: Vector, dim: int) -> list[Bytes]:
    """Returns the number of entries, their ascending indices, and their values."""
    head = np.array(len(indices_K), "<u4").tobytes()
    return [head, *pack_indices(indices_K, dim), little(values_K, "f4")]


def unpack_entries(reader: Reader, layout: Layout) -> dict[str, Array]:
    """Reads what :func:`pack_entries` wrote."""
    count = reader.number("I")
    reader.spend(count)
    return {
        "indices": unpack_indices(reader, count, sum(layout)),
        "values": reader.array("f4", count),
    }


def _pack(payload: Payload) -> list[Bytes]:
    indices_K, values_K = (
        as_numpy(payload.arrays[name]) for name in ("indices", "values")
    )
    if not values_K.all():  # a zero says nothing, but a negative one has a sign
        speaks_K = (values_K != 0) | np.signbit(values_K)
        indices_K, values_K = indices_K[speaks_K], values_K[speaks_K]
    return pack_entries(indices_K, values_K, payload.dim)


SPARSE = register(Format("sparse", 1, _pack, unpack_entries, places=indices, stride=4))
