"""Scaled sign: one bit a value, times the mean magnitude.

Karimireddy, Rebjock, Stich, Jaggi, "Error Feedback Fixes SignSGD and other
Gradient Compression Schemes", ICML 2019, §4: C(v) = ‖v‖₁/d · sign(v), a
contraction with δ = ‖v‖₁²/(d‖v‖₂²). A zero is sent as plus or minus at random,
so that a weight which never moves is not pushed one way.
"""

from typing import Literal

from fedcore.arrays import array_namespace
from fedcore.compressors._sign import encode_signs
from fedcore.compressors.base import Class, Compressor, CompressorConfig, stateless
from fedcore.kernels import absolute_sums
from fedcore.payloads import Declared, Layout
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

    def declared(self, layout: Layout) -> Declared:
        """Every value."""
        return {"sign": sum(layout)}

    def build(self, layout: Layout) -> Compressor:
        """The compressor for this layout."""
        parts = layout if self.per == "tensor" else (sum(layout),)
        return stateless(lambda delta_D, key: encode_signs(delta_D, key, parts, _mean))


def _mean(rows: Array) -> Array:
    means = absolute_sums(rows) / max(1, rows.shape[-1])
    return array_namespace(rows).astype(means, rows.dtype)
