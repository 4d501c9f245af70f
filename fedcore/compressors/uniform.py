"""Uniform quantisation to 8, 4 or 2 bits, with a step for each bucket.

The step of a bucket is its largest magnitude over L = 2^(b-1) - 1. Rounding to
nearest never enlarges an error beyond the value itself and keeps the largest
value of each bucket, so it is a contraction with δ ≥ 1/bucket. Stochastic
rounding (Alistarh et al., "QSGD", NeurIPS 2017, §3, with max-norm buckets) is
unbiased with ω ≤ bucket/(4L²). Buckets keep these constants free of d.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.arrays import array_namespace, like
from fedcore.compressors.base import (
    Class,
    Compressor,
    CompressorConfig,
    Keys,
    stateless,
)
from fedcore.payloads import Layout, Payload, quantised_payload
from fedcore.payloads.quantised import levels
from fedcore.rng import seeds, uniform
from fedcore.typing import Array


class Uniform(CompressorConfig):
    """Whole multiples of a step, in b bits each."""

    kind: Literal["uniform"] = "uniform"
    bits: Literal[8, 4, 2] = 8
    """Bits a value."""
    bucket: int = Field(default=512, ge=1, le=1 << 20)
    """Values that share a step."""
    rounding: Literal["nearest", "stochastic"] = "nearest"
    """To the nearest multiple, or up and down at random with the right mean."""

    @property
    def bias(self) -> Class:
        """Nearest: δ ≥ 1/bucket. Stochastic: a contraction only while ω < 1."""
        if self.rounding == "nearest" or self.bucket < 4 * levels(self.bits) ** 2:
            return "contraction"
        return "unbiased"

    def build(self, layout: Layout) -> Compressor:
        """The compressor for this layout."""
        return stateless(lambda delta_D, key: _encode(delta_D, key, self))


def _encode(delta_D: Array, key: Keys, config: Uniform) -> Payload:
    xp = array_namespace(delta_D)
    dim, top = delta_D.shape[-1], levels(config.bits)
    buckets = -(-dim // config.bucket)
    padding = xp.zeros(
        (*delta_D.shape[:-1], buckets * config.bucket - dim), dtype=delta_D.dtype
    )
    padded = xp.concat([delta_D, like(padding, delta_D)], axis=-1)
    rows = xp.reshape(padded, (*delta_D.shape[:-1], buckets, config.bucket))
    steps = xp.max(xp.abs(rows), axis=-1) / top
    # A step may round to zero below a subnormal; such a bucket is sent as zeros.
    safe = xp.where(steps > 0, steps, xp.ones_like(steps))
    scaled = rows / safe[..., np.newaxis]
    if config.rounding == "stochastic":
        noise = uniform(seeds(key), buckets * config.bucket)
        scaled = xp.floor(scaled + like(noise, delta_D).reshape(rows.shape))
    else:
        scaled = xp.round(scaled)
    whole = xp.astype(xp.clip(scaled, -top, top), xp.int8)
    whole = xp.where((steps > 0)[..., np.newaxis], whole, xp.zeros_like(whole))
    flat = xp.reshape(whole, (*delta_D.shape[:-1], buckets * config.bucket))[..., :dim]
    return quantised_payload(dim, config.bits, config.bucket, steps, flat)
