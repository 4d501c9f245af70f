"""Every value as float32: ``float32[D]``."""

import numpy as np

from fedcore.arrays import BLOCK, as_numpy
from fedcore.kernels import add_rows
from fedcore.payloads.base import Format, Layout, Payload, Reader, little, register
from fedcore.typing import Array, Bytes, Vector


def dense_payload(values_D: Array) -> Payload:
    """The message that says everything."""
    return Payload("dense", values_D.shape[-1], {"values": values_D})


def _pack(payload: Payload) -> list[Bytes]:
    return [little(as_numpy(payload.arrays["values"]), "f4")]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    reader.spend(sum(layout))
    return {"values": reader.array("f4", sum(layout))}


def _decode(payload: Payload) -> Array:
    return payload.arrays["values"]


def _add(payload: Payload, out_D: Vector, scale: np.float32) -> None:
    add_scaled(payload.arrays["values"], out_D, scale)


def add_scaled(values_D: Vector, out_D: Vector, scale: np.float32) -> None:
    """``out += scale * values``, product and sum rounded one after the other."""
    if scale == 1:
        out_D += values_D
        return
    if len(out_D) <= BLOCK:
        out_D += values_D * scale
        return
    add_rows([(values_D[np.newaxis], 0)], [float(scale)], out_D)


DENSE = register(
    Format("dense", 0, _pack, _unpack, _decode, _add, lambda _: None, stride=None)
)
