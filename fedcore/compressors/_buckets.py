"""What the quantisers share: buckets of whole multiples of a step."""

import math
from collections.abc import Callable

import numpy as np

from fedcore.arrays import array_namespace, is_numpy, like, pieces
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
    whole = xp.empty_like(delta_D, dtype=xp.int8)
    steps = like(np.empty((*delta_D.shape[:-1], count), np.float32), delta_D)
    for part in pieces(delta_D, unit=bucket):
        at, end = part.start // bucket, -(-part.stop // bucket)
        rows = _rows(delta_D[..., part], bucket)
        noise = None
        if key is not None:
            noise = uniform(seeds(key), (end - at) * bucket, part.start)
            noise = like(noise, delta_D).reshape(rows.shape)
        steps[..., at:end] = range_of(rows) / levels(bits)
        multiples = _multiples(rows, steps[..., at:end], noise, levels(bits))
        flat = multiples.reshape((*delta_D.shape[:-1], (end - at) * bucket))
        whole[..., part] = xp.astype(flat[..., : part.stop - part.start], xp.int8)
    return quantised_payload(dim, bits, bucket, steps, whole)


def _rows(x: Array, bucket: int) -> Array:
    """Whole buckets; the last one is padded with zeros."""
    missing = -x.shape[-1] % bucket
    if missing:
        padding = like(np.zeros((*x.shape[:-1], missing), np.float32), x)
        x = array_namespace(x).concat([x, padding], axis=-1)
    return x.reshape((*x.shape[:-1], -1, bucket))


def _multiples(rows: Array, steps: Array, noise: Array | None, top: int) -> Array:
    xp = array_namespace(rows)
    # A step may round to zero below a subnormal; such a bucket is sent as zeros.
    safe = xp.where(steps > 0, steps, xp.full_like(steps, math.inf))
    scaled = rows / safe[..., np.newaxis]
    if noise is not None:
        scaled += noise
    into = {"out": scaled} if is_numpy(scaled) else {}  # while it is in the cache
    scaled = xp.round(scaled, **into) if noise is None else xp.floor(scaled, **into)
    return xp.clip(scaled, -top, top, **into)
