"""Values as small whole multiples of a step, one step for each bucket.

``u8 bits, u32 bucket, float32[ceil(D/bucket)] steps, codes``. A code of b bits
stands for the whole number code - L with L = 2^(b-1) - 1; codes of 4 and 2 bits
are packed from the low end of each byte.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.arrays import array_namespace, as_numpy, is_numpy, like, pieces
from fedcore.errors import PayloadError
from fedcore.kernels import add_levels, put_levels
from fedcore.payloads.base import (
    Format,
    Layout,
    Payload,
    Reader,
    for_rows,
    little,
    register,
)
from fedcore.typing import Array, Bytes, Vector

WIDTHS = (8, 4, 2)
_WORDS: dict[int, Any] = {
    4: np.dtype("<u2"),
    2: np.dtype("<u4"),
}  # of codes that share a byte
Codes = npt.NDArray[np.uint8]


def levels(width: int) -> int:
    """Returns the largest whole number that a code of this width stands for."""
    return (1 << (width - 1)) - 1


def quantised_payload(
    dim: int, width: int, bucket: int, steps: Array, levels_D: Array
) -> Payload:
    """Returns a message of whole multiples of steps.

    Args:
        dim: D.
        width: the bits of a code: 8, 4 or 2.
        bucket: the number of values that share a step.
        steps: the step of each bucket.
        levels_D: whole numbers in [-L, L], shape (..., D).
    """
    grid = {"grid": np.array([width, bucket], np.int64)}
    about = for_rows(levels_D.shape[:-1], grid)
    return Payload("quantised", dim, {**about, "steps": steps, "levels": levels_D})


def _pack(payload: Payload) -> list[Bytes]:
    width, bucket = (int(n) for n in payload.arrays["grid"])
    levels_D = np.asarray(as_numpy(payload.arrays["levels"]), np.int8, order="C")
    per_byte = 8 // width
    codes = np.empty(-(-len(levels_D) // per_byte), np.uint8)
    for part in pieces(levels_D, unit=per_byte):
        # Wraps around where it must: bytes from -L to L become 0 to 2L.
        some = levels_D[part].view(np.uint8) + np.uint8(levels(width))
        if len(some) % per_byte:
            some = np.concatenate([some, np.zeros(-len(some) % per_byte, np.uint8)])
        at = part.start // per_byte
        codes[at : at + len(some) // per_byte] = _pack_codes(some, width)
    head = bytes([width]) + np.array(bucket, "<u4").tobytes()
    return [head, little(as_numpy(payload.arrays["steps"]), "f4"), codes.data]


def _pack_codes(codes: Codes, width: int) -> Codes:
    """Codes that lie in a byte each, ``8 // width`` of them to a byte."""
    if width == 8:
        return codes
    words = codes.view(_WORDS[width])  # the bytes that are to become one
    packed = words.copy()
    for place in range(1, 8 // width):
        packed |= words >> np.uint8((8 - width) * place)
    narrow: Codes = packed.astype(np.uint8)
    return narrow


def _unpack_codes(packed: Codes, width: int) -> Codes:
    """Returns the reverse."""
    if width == 8:
        return packed.copy()
    words = packed.astype(_WORDS[width])
    codes = words.copy()
    for place in range(1, 8 // width):
        codes |= words << np.uint8((8 - width) * place)
    codes &= codes.dtype.type(((1 << width) - 1) * int("01" * (8 // width), 16))
    wide: Codes = codes.view(np.uint8)
    return wide


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    dim, width, bucket = sum(layout), reader.number("B"), reader.number("I")
    reader.spend(dim)
    if width not in WIDTHS:
        raise PayloadError(f"unknown code width {width}, expected one of {WIDTHS}")
    if not bucket >= 1:
        raise PayloadError("a bucket must hold at least one value")
    steps = reader.array("f4", math.ceil(dim / bucket))
    per_byte = 8 // width
    packed = reader.array("u1", -(-dim // per_byte))
    levels_D, top = np.empty(dim, np.int8), levels(width)
    for part in pieces(levels_D, unit=per_byte):
        at, end = part.start // per_byte, -(-part.stop // per_byte)
        codes = _unpack_codes(packed[at:end], width)[: part.stop - part.start]
        if int(codes.max()) > 2 * top:
            raise PayloadError(f"code {int(codes.max())} is above {2 * top}")
        np.subtract(codes, np.uint8(top), out=levels_D[part].view(np.uint8))
    grid = np.array([width, bucket], np.int64)
    return {"grid": grid, "steps": steps, "levels": levels_D}


def _decode(payload: Payload) -> Array:
    steps, whole = payload.arrays["steps"], payload.arrays["levels"]
    if is_numpy(whole) and whole.ndim == 1:
        values_D = np.empty(payload.dim, np.float32)
        put_levels(whole, _bucket(payload), steps, values_D)
        return values_D
    bucket = _bucket(payload)
    xp = array_namespace(steps)
    repeats = np.full(steps.shape[-1], bucket)
    repeats[-1:] = payload.dim - bucket * (len(repeats) - 1)
    per_value_D = xp.repeat(steps, like(repeats, steps), axis=-1)
    return xp.astype(whole, steps.dtype) * per_value_D


def _bucket(payload: Payload) -> int:
    return int(as_numpy(payload.arrays["grid"]).reshape(-1)[1])


def _add(payload: Payload, out_D: Vector, scale: np.float32) -> None:
    steps, whole = payload.arrays["steps"], payload.arrays["levels"]
    add_levels(whole, _bucket(payload), steps, scale, out_D)


def _multiple(payload: Payload) -> float:
    return levels(int(payload.arrays["grid"][0]))


QUANTISED = register(
    Format("quantised", 4, _pack, _unpack, _decode, add=_add, multiple=_multiple)
)
