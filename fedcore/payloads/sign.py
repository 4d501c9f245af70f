"""One bit for each value, and a scale for all values or for each tensor.

``u16 scales, float32[scales], ceil(D/8) bytes``; a set bit (lowest first) says
plus. One scale holds for the whole vector, T scales hold for its T tensors.
"""

from typing import Any

import numpy as np

from fedcore.arrays import array_namespace, as_numpy, is_numpy, like
from fedcore.errors import PayloadError
from fedcore.kernels import add_signs, put_signs
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


def sign_payload(positive_D: Array, scales_T: Array, layout: Layout) -> Payload:
    """Returns a message of signs.

    Args:
        positive_D: whether each value is positive, shape (..., D).
        scales_T: a scale for each part of the layout, (..., T).
        layout: the sizes of the parts.
    """
    about = for_rows(positive_D.shape[:-1], {"sizes": np.asarray(layout, np.int64)})
    arrays = {"positive": positive_D, "scales": scales_T, **about}
    return Payload("sign", positive_D.shape[-1], arrays)


def _pack(payload: Payload) -> list[Bytes]:
    scales_T = as_numpy(payload.arrays["scales"])
    bits = np.packbits(as_numpy(payload.arrays["positive"]), bitorder="little")
    return [np.array(len(scales_T), "<u2").tobytes(), little(scales_T, "f4"), bits.data]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    count, dim = reader.number("H"), sum(layout)
    reader.spend(dim)
    if count not in (1, len(layout)):
        raise PayloadError(f"expected 1 or {len(layout)} scales, got {count}")
    scales = reader.array("f4", count)
    bits = reader.array("u1", (dim + 7) // 8)
    positive = np.unpackbits(bits, count=dim, bitorder="little").view(bool)
    sizes = np.asarray(layout if count > 1 or len(layout) == 1 else (dim,), np.int64)
    return {"positive": positive, "scales": scales, "sizes": sizes}


def _decode(payload: Payload) -> Array:
    positive, scales = payload.arrays["positive"], payload.arrays["scales"]
    if is_numpy(positive) and positive.ndim == 1:
        values_D = np.empty(payload.dim, np.float32)
        put_signs(positive, scales, _sizes(payload), values_D)
        return values_D
    xp = array_namespace(scales)
    per_value_D = xp.repeat(scales, like(_sizes(payload), scales), axis=-1)
    signs_D = xp.astype(positive, scales.dtype)  # where() would guess 4 ns a value
    signs_D *= 2
    signs_D -= 1
    return signs_D * per_value_D


def _sizes(payload: Payload) -> Any:
    sizes = as_numpy(payload.arrays["sizes"])
    return sizes.reshape(-1, sizes.shape[-1])[0]


def _add(payload: Payload, out_D: Vector, scale: np.float32) -> None:
    positive, scales = payload.arrays["positive"], payload.arrays["scales"]
    add_signs(positive, scales * scale, _sizes(payload), out_D)


SIGN = register(Format("sign", 3, _pack, _unpack, _decode, add=_add))
