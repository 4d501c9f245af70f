"""What the quantisers share: buckets of whole multiples of a step."""

import math
from collections.abc import Callable

import numpy as np

from fedcore.arrays import array_namespace, like, pieces
from fedcore.compressors.base import Keys
from fedcore.payloads import Payload, quantised_payload
from fedcore.payloads.quantised import levels
from fedcore.rng import seeds, uniform
from fedcore.typing import Array


def quantise(
    delta_D: Array,
    key: Keys | None,
    bits: int,
    bucket: int,
    range_of: Callable[[Array], Array],
) -> Payload:
    """Whole multiples of ``range_of(bucket)`` / L, where L = 2^(bits-1) - 1.

    With a key values are rounded up and down at random with the right mean, without
    one to the nearest.
    """
    xp = array_namespace(delta_D)
    dim, count = delta_D.shape[-1], -(-delta_D.shape[-1] // bucket)
    padding = np.zeros((*delta_D.shape[:-1], count * bucket - dim), np.float32)
    padded = xp.concat([delta_D, like(padding, delta_D)], axis=-1)
    whole = xp.empty_like(padded, dtype=xp.int8)
    steps = xp.empty_like(padded[..., :count])
    for part in pieces(padded, unit=bucket):
        at, end = part.start // bucket, part.stop // bucket
        rows = xp.reshape(padded[..., part], (*delta_D.shape[:-1], end - at, bucket))
        noise = None
        if key is not None:
            noise = uniform(seeds(key), part.stop - part.start, part.start)
            noise = like(noise, delta_D).reshape(rows.shape)
        steps[..., at:end] = range_of(rows) / levels(bits)
        multiples = _multiples(rows, steps[..., at:end], noise, levels(bits))
        whole[..., part] = multiples.reshape(padded[..., part].shape)
    return quantised_payload(dim, bits, bucket, steps, whole[..., :dim])


def _multiples(rows: Array, steps: Array, noise: Array | None, top: int) -> Array:
    xp = array_namespace(rows)
    # A step may round to zero below a subnormal; such a bucket is sent as zeros.
    safe = xp.where(steps > 0, steps, xp.full_like(steps, math.inf))
    scaled = rows / safe[..., np.newaxis]
    scaled = xp.round(scaled) if noise is None else xp.floor(scaled + noise)
    return xp.astype(xp.clip(scaled, -top, top), xp.int8)
