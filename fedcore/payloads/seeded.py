"""A few values whose places follow from a seed: ``u64 seed, u32 k, float32[k]``.

The places are :func:`fedcore.rng.subset` of the seed; they never travel.
"""

import struct

import numpy as np

from fedcore.arrays import as_numpy
from fedcore.errors import PayloadError
from fedcore.payloads.base import Format, Layout, Payload, Reader, little, register
from fedcore.payloads.sparse import sparse_payload
from fedcore.rng import subset
from fedcore.typing import Array, Bytes, Indices


def seeded_payload(dim: int, seed: Array, values_K: Array) -> Payload:
    """Returns a message of the values on the seed's support; all others are zero."""
    return Payload("seeded", dim, {"seed": seed, "values": values_K})


def draw_support(dim: int, seed: Array, count: int) -> Indices:
    """Returns the support, shape ``seed.shape + (count,)``."""
    words = np.asarray(seed)
    flat = [subset(int(word), dim, count) for word in words.reshape(-1)]
    return np.array(flat, np.int64).reshape(*words.shape, count)


def _pack(payload: Payload) -> list[Bytes]:
    values_K = as_numpy(payload.arrays["values"])
    head = struct.pack("<QI", int(payload.arrays["seed"]), len(values_K))
    return [head, little(values_K, "f4")]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    seed, count = reader.number("Q"), reader.number("I")
    reader.spend(count)
    if count > sum(layout):
        raise PayloadError(f"{count} entries in a message of {sum(layout)} values")
    values = reader.array("f4", count)  # before the places are drawn: junk is cheap
    return {"seed": np.array(seed, np.uint64), "values": values}


def _places(payload: Payload) -> Indices:
    seed, values_K = payload.arrays["seed"], payload.arrays["values"]
    return draw_support(payload.dim, seed, values_K.shape[-1])


def _prepare(payload: Payload) -> Payload:
    """Draws the places once."""
    return sparse_payload(payload.dim, _places(payload), payload.arrays["values"])


SEEDED = register(
    Format("seeded", 2, _pack, _unpack, places=_places, stride=4, prepare=_prepare)
)
