"""A matrix of low rank as two thin ones: ``u32 m, u8 r, float32[r·m], float32[r·n]``.

==== ==== ============================================================
at   size content
==== ==== ============================================================
0    4    m, the rows of the matrix, as u32; n = D/m columns
4    1    r, the rank: 1 to 64, and no more than m or n
5    4rm  P, column after column
…    4rn  Q, column after column
==== ==== ============================================================

The matrix is P·Qᵀ, and the vector its rows one after the other. Both sides must find
the same bits, so the order is fixed: the products P[i, 1]·Q[j, 1], P[i, 2]·Q[j, 2] and
so on are rounded one by one, and added up from the first to the last; no matrix product
of a library says how it rounds.
"""

import struct

import numpy as np

from fedcore.arrays import as_numpy
from fedcore.errors import PayloadError
from fedcore.payloads.base import Format, Layout, Payload, Reader, little, register
from fedcore.payloads.dense import dense_payload
from fedcore.typing import Array, Bytes

MOST_RANK = 64  # decoding passes over the matrix once for each rank


def low_rank_payload(p_RM: Array, q_RN: Array) -> Payload:
    """Returns the message of the matrix PᵀQ; here P and Q have a row for each rank."""
    dim = p_RM.shape[-1] * q_RN.shape[-1]
    return Payload("low_rank", dim, {"p": p_RM, "q": q_RN})


def _pack(payload: Payload) -> list[Bytes]:
    p_RM, q_RN = as_numpy(payload.arrays["p"]), as_numpy(payload.arrays["q"])
    rank, rows = p_RM.shape
    return [struct.pack("<IB", rows, rank), little(p_RM, "f4"), little(q_RN, "f4")]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    dim, rows, rank = sum(layout), reader.number("I"), reader.number("B")
    if not rows or dim % rows:
        raise PayloadError(f"no matrix of {rows} rows has {dim} values")
    columns = dim // rows
    if not 1 <= rank <= min(rows, columns, MOST_RANK):
        raise PayloadError(f"rank {rank} of a matrix of {rows} x {columns}")
    reader.spend(rank * dim)
    p_RM = reader.array("f4", rank * rows).reshape(rank, rows)
    q_RN = reader.array("f4", rank * columns).reshape(rank, columns)
    return {"p": p_RM, "q": q_RN}


def _decode(payload: Payload) -> Array:
    p_RM, q_RN = payload.arrays["p"], payload.arrays["q"]
    total = p_RM[..., 0, :, None] * q_RN[..., 0, None, :]
    for place in range(1, p_RM.shape[-2]):
        total += p_RM[..., place, :, None] * q_RN[..., place, None, :]
    return total.reshape(*p_RM.shape[:-2], payload.dim)


def _magnitude(payload: Payload) -> float:
    """Returns a sum of r products, each of which may have been rounded up."""
    p_RM, q_RN = payload.arrays["p"], payload.arrays["q"]
    largest = [float(np.abs(as_numpy(factor)).max()) for factor in (p_RM, q_RN)]
    bound = float(p_RM.shape[-2] * largest[0] * largest[1])
    # Products of subnormal size are rounded in steps of 2^-149.
    return bound * (1 + 2.0**-16) + 2.0**-140 if bound else 0.0


LOW_RANK = register(
    Format(
        "low_rank",
        11,
        _pack,
        _unpack,
        _decode,
        magnitude=_magnitude,
        stride=4,
        prepare=lambda payload: dense_payload(_decode(payload)),
    )
)
