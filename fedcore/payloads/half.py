"""Every value in 16 bits: ``u8 kind, u16[D]``.

==== ==== ========================================================
at   size content
==== ==== ========================================================
0    1    kind: 0 float16 (IEEE 754 binary16), 1 bfloat16
1    2D   values; a bfloat16 is the upper half of a float32's bits
==== ==== ========================================================

In memory the values are float32 numbers that the kind can hold.
"""

import numpy as np

from fedcore.arrays import as_numpy
from fedcore.errors import PayloadError
from fedcore.payloads.base import Format, Layout, Payload, Reader, little, register
from fedcore.typing import Array, Bytes

KINDS = ("float16", "bfloat16")


def half_payload(values_D: Array, kind: str) -> Payload:
    """Returns a message of values that ``kind``, one of ``KINDS``, holds exactly."""
    code = np.full(values_D.shape[:-1], KINDS.index(kind), np.uint8)
    return Payload("half", values_D.shape[-1], {"kind": code, "values": values_D})


def _pack(payload: Payload) -> list[Bytes]:
    kind = int(payload.arrays["kind"])
    values_D = np.asarray(as_numpy(payload.arrays["values"]), np.float32, order="C")
    if KINDS[kind] == "float16":
        return [bytes([kind]), little(values_D, "f2")]
    return [bytes([kind]), little(values_D.view(np.uint32) >> np.uint32(16), "u2")]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    kind, dim = reader.number("B"), sum(layout)
    reader.spend(dim)
    if kind >= len(KINDS):
        raise PayloadError(f"unknown kind {kind} of 16-bit numbers, expected 0 or 1")
    if KINDS[kind] == "float16":
        with np.errstate(invalid="ignore"):  # a NaN that signals is junk like any NaN
            values_D = reader.array("f2", dim).astype(np.float32)
    else:
        bits_D = reader.array("u2", dim).astype(np.uint32)
        bits_D <<= np.uint32(16)
        values_D = bits_D.view(np.float32)
    return {"kind": np.array(kind, np.uint8), "values": values_D}


HALF = register(Format("half", 7, _pack, _unpack, stride=2))
