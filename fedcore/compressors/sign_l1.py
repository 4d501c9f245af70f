"""Scaled sign: one bit a value, times the mean magnitude.

Karimireddy, Rebjock, Stich, Jaggi, "Error Feedback Fixes SignSGD and other
Gradient Compression Schemes", ICML 2019, §4: C(v) = ‖v‖₁/d · sign(v), a
contraction with δ = ‖v‖₁²/(d‖v‖₂²). A zero is sent as plus or minus at random,
so that a weight which never moves is not pushed one way.
"""

from typing import Literal

import numpy as np

from fedcore.arrays import array_namespace, like
from fedcore.compressors.base import (
    Class,
    Compressor,
    CompressorConfig,
    Keys,
    stateless,
)
from fedcore.payloads import Layout, Payload, sign_payload
from fedcore.rng import bits, seeds
from fedcore.typing import Array


class SignL1(CompressorConfig):
    """The sign of every value, times the mean magnitude of its tensor."""

    kind: Literal["sign_l1"] = "sign_l1"
    per: Literal["tensor", "vector"] = "tensor"
    """One scale for each tensor, or one for all."""

    @property
    def bias(self) -> Class:
        """δ = ‖v‖₁²/(d‖v‖₂²), at least 1/d."""
        return "contraction"

    def build(self, layout: Layout) -> Compressor:
        """The compressor for this layout."""
        parts = layout if self.per == "tensor" else (sum(layout),)
        return stateless(lambda delta_D, key: _encode(delta_D, key, parts))


def _encode(delta_D: Array, key: Keys, parts: Layout) -> Payload:
    xp = array_namespace(delta_D)
    positive_D = delta_D > 0
    zero_D = delta_D == 0
    if bool(xp.any(zero_D)):
        coin = (bits(seeds(key), 0, delta_D.shape[-1]) >> np.uint64(63)).astype(bool)
        positive_D = xp.where(zero_D, like(coin, delta_D), positive_D)
    ends = np.cumsum(parts)
    scales = [
        xp.sum(xp.abs(delta_D[..., end - size : end]), axis=-1) / max(1, size)
        for size, end in zip(parts, ends.tolist(), strict=True)
    ]
    return sign_payload(positive_D, xp.stack(scales, axis=-1), parts)
