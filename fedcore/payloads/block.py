"""A message about a block of places: ``u32 stride, u32 start, u32 k, payload``.

==== ======== ==========================================================
at   size     content
==== ======== ==========================================================
0    4        a, the stride, as u32; it has no divisor in common with D
4    4        s, where the block starts, as u32; below D
8    4        k, how many values it has, as u32; at most D
12   the rest a payload with its own header: ``dense`` (1), ``sign`` (3)
              or ``quantised`` (4), whose D is k
==== ======== ==========================================================

The block has the places a·j mod D for j = s, s+1, …, s+k-1 modulo D, in ascending
order. Since a and D have no divisor in common, no place comes twice before all have
come. The tensors of the payload inside are those of the model, each as long as the
block has places in it. All other values are zero.
"""

import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.arrays import like
from fedcore.errors import PayloadError
from fedcore.payloads.base import (
    Format,
    Layout,
    Payload,
    Reader,
    for_rows,
    pack_plain,
    register,
)
from fedcore.payloads.dense import DENSE
from fedcore.payloads.meaning import decode, magnitude
from fedcore.payloads.nested import Inside
from fedcore.payloads.quantised import QUANTISED
from fedcore.payloads.sign import SIGN
from fedcore.payloads.sparse import sparse_payload
from fedcore.typing import Array, Bytes

INNER = Inside("in a block", DENSE, SIGN, QUANTISED)
_HEAD = struct.Struct("<III")
_FEW = 50  # below one place in 50, sorting the places is faster than marking them
Places = npt.NDArray[np.int64]


def block_payload(dim: int, start: int, inner: Payload) -> Payload:
    """Returns the message of the block at ``start``; ``inner`` holds its values."""
    first: Any = next(iter(inner.arrays.values()))
    turn = np.array([stride_of(dim), start, inner.dim], np.int64)
    own = for_rows(first.shape[:-1], {"turn": turn})
    return INNER.put("block", dim, own, inner)


def stride_of(dim: int) -> int:
    """Returns a stride that spreads each block over the whole vector: about .618·D."""
    stride = max(1, dim * 377 // 610)
    while math.gcd(stride, dim) > 1:
        stride += 1
    return stride


def block_places(dim: int, stride: int, start: int, count: int) -> Places:
    """Returns the places of a block, ascending."""
    places = np.arange(start, start + count, dtype=np.uint64)
    if count:  # products of two numbers below 2^32 fit into 64 bits
        size = np.uint64(dim)
        places %= size
        places *= np.uint64(stride)
        places %= size
    if _FEW * count < dim:  # at the cost of the message, and not of the model
        places.sort()
        return places.view(np.int64)
    marks = np.zeros(dim, bool)
    marks[places.view(np.int64)] = True
    return np.flatnonzero(marks)


def block_layout(layout: Layout, places: Places) -> Layout:
    """Returns the number of the block's places in each tensor."""
    ends = np.searchsorted(places, np.cumsum(np.asarray(layout, np.int64)))
    return tuple(np.diff(ends, prepend=0).tolist())


def turn_of(payload: Payload) -> tuple[int, int, int]:
    """Returns stride, start and count; a stack has one block."""
    turn = np.asarray(payload.arrays["turn"]).reshape(-1, 3)[0]
    return int(turn[0]), int(turn[1]), int(turn[2])


def _places(payload: Payload) -> Places:
    return block_places(payload.dim, *turn_of(payload))


def _inner(payload: Payload) -> Payload:
    """Returns the message about the values of the block."""
    return INNER.take(payload, "turn", turn_of(payload)[2])


def _pack(payload: Payload) -> list[Bytes]:
    return [_HEAD.pack(*turn_of(payload)), *pack_plain(_inner(payload))]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    dim = sum(layout)
    stride, start, count = _HEAD.unpack(reader.bytes(_HEAD.size))
    reader.spend(count)
    body = reader.bytes(reader.left)
    if count > min(dim, 8 * len(body)):  # before the places are drawn
        raise PayloadError(f"a block of {count} values in a message of {len(body)}")
    if start >= max(1, dim) or math.gcd(stride, dim) > 1 or not 0 < stride <= dim + 1:
        raise PayloadError(f"no block starts at {start} with stride {stride} in {dim}")
    INNER.check(body)
    inner_layout = block_layout(layout, block_places(dim, stride, start, count))
    return {
        "turn": np.array([stride, start, count], np.int64),
        **INNER.unpack(body, inner_layout, reader),
    }


def _values(payload: Payload) -> Array:
    return decode(_inner(payload))


def _decode(payload: Payload) -> Array:
    values = _values(payload)
    out_D = like(np.zeros((*values.shape[:-1], payload.dim), np.float32), values)
    # All rows of a stack have the same places.
    out_D[..., like(_places(payload), values)] = values
    return out_D


def _prepare(payload: Payload) -> Payload:
    """Finds the places once."""
    return sparse_payload(payload.dim, _places(payload), _values(payload))


BLOCK = register(
    Format(
        "block",
        12,
        _pack,
        _unpack,
        _decode,
        _places,
        _values,
        magnitude=lambda payload: magnitude(_inner(payload)),
        prepare=_prepare,
    )
)
