"""Values as small whole multiples of a step, one step for each bucket.

``u8 bits, u32 bucket, float32[ceil(D/bucket)] steps, codes``. A code of b bits
stands for the whole number code - L with L = 2^(b-1) - 1; codes of 4 and 2 bits
are packed from the low end of each byte.
"""

import math

import numpy as np

from fedcore.arrays import array_namespace, as_numpy, like
from fedcore.errors import PayloadError
from fedcore.payloads.base import Format, Layout, Payload, Reader, little, register
from fedcore.payloads.dense import add_scaled
from fedcore.typing import Array, Bytes, Vector

WIDTHS = (8, 4, 2)


def levels(width: int) -> int:
    """The largest whole number that a code of this width stands for."""
    return (1 << (width - 1)) - 1


def quantised_payload(
    dim: int, width: int, bucket: int, steps: Array, levels_D: Array
) -> Payload:
    """A message of whole numbers in [-L, L] and the step of each bucket."""
    grid = np.broadcast_to(
        np.array([width, bucket], np.int64), (*levels_D.shape[:-1], 2)
    )
    return Payload("quantised", dim, {"grid": grid, "steps": steps, "levels": levels_D})


def _pack(payload: Payload) -> list[Bytes]:
    width, bucket = (int(n) for n in payload.arrays["grid"])
    codes = (as_numpy(payload.arrays["levels"]) + levels(width)).astype(np.uint8)
    per_byte = 8 // width
    if per_byte > 1:
        padded = np.zeros(-(-len(codes) // per_byte) * per_byte, np.uint8)
        padded[: len(codes)] = codes
        columns = padded.reshape(-1, per_byte)
        codes = columns[:, 0].copy()
        for place in range(1, per_byte):
            codes |= columns[:, place] << np.uint8(width * place)
    head = bytes([width]) + np.array(bucket, "<u4").tobytes()
    return [head, little(as_numpy(payload.arrays["steps"]), "f4"), codes.data]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    dim, width, bucket = sum(layout), reader.number("B"), reader.number("I")
    if width not in WIDTHS:
        raise PayloadError(f"unknown code width {width}, expected one of {WIDTHS}")
    if not bucket >= 1:
        raise PayloadError("a bucket must hold at least one value")
    steps = reader.array("f4", math.ceil(dim / bucket))
    per_byte = 8 // width
    packed = reader.array("u1", -(-dim // per_byte))
    mask = np.uint8((1 << width) - 1)
    if per_byte == 1:
        codes = packed
    else:
        columns = [
            (packed >> np.uint8(width * place)) & mask for place in range(per_byte)
        ]
        codes = np.stack(columns, axis=-1).reshape(-1)[:dim]
    if dim and int(codes.max()) > 2 * levels(width):
        raise PayloadError(f"code {int(codes.max())} is above {2 * levels(width)}")
    whole = codes.astype(np.int16) - np.int16(levels(width))
    grid = np.array([width, bucket], np.int64)
    return {"grid": grid, "steps": steps, "levels": whole.astype(np.int8)}


def _decode(payload: Payload) -> Array:
    grid, steps, whole = (payload.arrays[name] for name in ("grid", "steps", "levels"))
    bucket = int(as_numpy(grid).reshape(-1)[1])
    xp = array_namespace(steps)
    repeats = np.full(steps.shape[-1], bucket)
    repeats[-1:] = payload.dim - bucket * (len(repeats) - 1)
    per_value_D = xp.repeat(steps, like(repeats, steps), axis=-1)
    return xp.astype(whole, steps.dtype) * per_value_D


def _add(payload: Payload, out_D: Vector, scale: np.float32) -> None:
    add_scaled(_decode(payload), out_D, scale)


def _multiple(payload: Payload) -> float:
    return levels(int(payload.arrays["grid"][0]))


QUANTISED = register(
    Format("quantised", 4, _pack, _unpack, _decode, _add, lambda _: None, _multiple)
)
