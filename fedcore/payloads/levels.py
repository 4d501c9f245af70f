"""A few values as whole multiples of a step, and where they lie.

``u16 T, float32[T] steps, u32 k``, indices (:mod:`fedcore.payloads.indices`),
``ceil(k/8)`` bytes of signs (a set bit says plus, the lowest first), ``u8 b`` and,
unless b is 255, the magnitudes less one in Golomb-Rice code with b low bits
(:mod:`fedcore.payloads.rice`). With b = 255 every magnitude is 1. One step holds for
the whole vector, T steps hold for its T tensors. A value is ± magnitude · step,
rounded once.
"""

from collections.abc import Sequence

import numpy as np

from fedcore.arrays import array_namespace, as_numpy, is_numpy, like, take
from fedcore.errors import PayloadError
from fedcore.kernels import rice
from fedcore.payloads.base import (
    Exact,
    Format,
    Layout,
    Payload,
    Reader,
    for_rows,
    little,
    register,
)
from fedcore.payloads.indices import pack_indices, unpack_indices
from fedcore.payloads.rice import best_width, unpack_rice
from fedcore.payloads.sparse import indices
from fedcore.typing import Array, Bytes, Indices

MOST = 1 << 24  # whole numbers up to here are float32 numbers
SPARSE = 64  # below one entry in 64 values, sorting beats a vector of all values
_ONES = 255  # in the place of b: all magnitudes are 1


def levels_payload(
    dim: int, indices_K: Array, levels_K: Array, steps_T: Array, layout: Layout
) -> Payload:
    """Returns a message of whole multiples of steps.

    Args:
        dim: D.
        indices_K: the places, ascending, shape (..., K).
        levels_K: the whole numbers there.
        steps_T: a step for each part of the layout, (..., T).
        layout: the sizes of the parts.
    """
    sizes = for_rows(levels_K.shape[:-1], {"sizes": np.asarray(layout, np.int64)})
    arrays = {"indices": indices_K, "levels": levels_K, "steps": steps_T}
    return Payload("levels", dim, {**arrays, **sizes})


def _exact(payload: Payload) -> Exact:
    return payload.arrays["indices"], level_values(payload).astype(np.float64)


def _negative(message: Payload) -> Payload:
    levels_K = -message.arrays["levels"]
    return Payload(message.format, message.dim, {**message.arrays, "levels": levels_K})


def _merge(messages: Sequence[Payload]) -> Payload | None:
    """Returns the sum as whole multiples of the largest step that allows it.

    Steps that are powers of two add up without rounding.
    """
    messages = [message for message in messages if message.arrays["indices"].size]
    if not messages:
        return None
    steps = [message.arrays["steps"] for message in messages]
    if any(len(step) != 1 or not _power_of_two(step[0]) for step in steps):
        return None
    least = min(float(step[0]) for step in steps)
    ratios = [float(step[0]) / least for step in steps]
    if max(ratios) > MOST:
        return None
    dim = messages[0].dim
    numbers = [
        message.arrays["levels"] * np.int64(ratio)
        for message, ratio in zip(messages, ratios, strict=True)
    ]
    places, sums = _sums(dim, [m.arrays["indices"] for m in messages], numbers)
    common = int(np.bitwise_or.reduce(np.abs(sums))) if len(sums) else 1
    factor = common & -common  # the power of two that is in all of them
    sums //= factor
    if len(sums) and int(np.abs(sums).max()) > MOST:
        return None
    step = np.array([least * factor], np.float32)
    return levels_payload(dim, places, sums.astype(np.int32), step, (dim,))


def _sums(
    dim: int, indices: list[Indices], numbers: list[Indices]
) -> tuple[Indices, Indices]:
    """Returns the places where sums of whole numbers are not zero, and the sums."""
    if SPARSE * sum(map(len, indices)) < dim:
        places, place_of = np.unique(np.concatenate(indices), return_inverse=True)
        # Sums in double precision are exact far beyond MOST.
        added = np.bincount(place_of, weights=np.concatenate(numbers))
        sums = added.astype(np.int64)
        return places[sums != 0], sums[sums != 0]
    sums_D = np.zeros(dim, np.int64)
    for indices_K, numbers_K in zip(indices, numbers, strict=True):
        sums_D[indices_K] += numbers_K
    places = np.flatnonzero(sums_D)
    return places, sums_D[places]


def _power_of_two(step: np.float32) -> bool:
    return bool(step > 0 and np.isfinite(step) and np.frexp(step)[0] == 0.5)


def _pack(payload: Payload) -> list[Bytes]:
    indices_K = as_numpy(payload.arrays["indices"])
    levels_K = as_numpy(payload.arrays["levels"])
    steps_T = as_numpy(payload.arrays["steps"])
    speaks_K = levels_K != 0  # a stack pads its shorter rows with zeros
    if not speaks_K.all():
        indices_K, levels_K = indices_K[speaks_K], levels_K[speaks_K]
    plus = np.packbits(levels_K > 0, bitorder="little")
    return [
        np.array(len(steps_T), "<u2").tobytes(),
        little(steps_T, "f4"),
        np.array(len(indices_K), "<u4").tobytes(),
        *pack_indices(indices_K, payload.dim),
        plus.tobytes(),
        *_pack_magnitudes(np.abs(levels_K.astype(np.int64)) - 1),
    ]


def _pack_magnitudes(less_one_K: Indices) -> list[Bytes]:
    if not less_one_K.any():
        return [bytes([_ONES])]
    width, _ = best_width(less_one_K)
    return [bytes([width]), *rice(less_one_K, width)]


def _unpack(reader: Reader, layout: Layout) -> dict[str, Array]:
    parts, dim = reader.number("H"), sum(layout)
    if parts not in (1, len(layout)):
        raise PayloadError(f"expected 1 or {len(layout)} steps, got {parts}")
    steps_T = reader.array("f4", parts)
    count = reader.number("I")
    reader.spend(count)
    indices_K = unpack_indices(reader, count, dim)
    packed = reader.array("u1", (count + 7) // 8)
    plus_K = np.unpackbits(packed, count=count, bitorder="little").view(bool)
    width = reader.number("B")
    if width == _ONES:
        levels_K = np.ones(count, np.int32)
    else:
        levels_K = unpack_rice(reader, count, width, MOST - 1, np.int32)
        if count and int(levels_K.max()) >= MOST:
            raise PayloadError(f"a magnitude above {MOST}")
        levels_K += np.int32(1)
    signs_K = 2 * plus_K.view(np.int8) - np.int8(1)
    levels_K *= signs_K  # a masked np.negative takes ten times as long
    sizes = layout if parts > 1 or len(layout) == 1 else (dim,)
    return {
        "indices": indices_K,
        "levels": levels_K,
        "steps": steps_T,
        "sizes": np.asarray(sizes, np.int64),
    }


def level_values(payload: Payload) -> Array:
    """Returns the values at the indices, shape ``(..., K)``."""
    levels_K, steps_T = payload.arrays["levels"], payload.arrays["steps"]
    xp = array_namespace(levels_K)
    whole_K = xp.astype(levels_K, xp.float32)
    if steps_T.shape[-1] == 1:
        return whole_K * steps_T
    sizes = payload.arrays["sizes"]
    ends = np.cumsum(sizes.reshape(-1, sizes.shape[-1])[0])
    indices_K = as_numpy(payload.arrays["indices"])
    if is_numpy(levels_K) and levels_K.ndim == 1:
        counts = np.diff(np.searchsorted(indices_K, ends), prepend=0)
        whole_K *= np.repeat(steps_T, counts)
        return whole_K
    part_K = np.searchsorted(ends, indices_K, side="right")
    return whole_K * take(steps_T, like(part_K, steps_T))


def _largest(payload: Payload) -> float:
    levels_K = payload.arrays["levels"]
    return float(np.abs(levels_K).max()) if levels_K.size else 0.0


LEVELS = register(
    Format(
        "levels",
        6,
        _pack,
        _unpack,
        places=indices,
        values=level_values,
        multiple=_largest,
        exact=_exact,
        merge=_merge,
        negative=_negative,
    )
)
