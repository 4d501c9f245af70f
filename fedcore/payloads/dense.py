"""Every value as float32: ``float32[D]``."""

from fedcore.arrays import as_numpy
from fedcore.payloads.base import Format, Layout, Payload, Reader, little, register
from fedcore.typing import Array, Bytes


def dense_payload(values_D: Array) -> Payload:
    """Returns the message of all values."""
    return Payload("dense", values_D.shape[-1], {"values": values_D})


def _pack(payload: Payload) -> list[Bytes]:
    return [little(as_numpy(payload.arrays["values"]), "f4")]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    reader.spend(sum(layout))
    return {"values": reader.array("f4", sum(layout))}


DENSE = register(Format("dense", 0, _pack, _unpack, stride=None))
