"""Scaled sign: one bit a value, times the mean magnitude.

Karimireddy, Rebjock, Stich, Jaggi, "Error Feedback Fixes SignSGD and other
Gradient Compression Schemes", ICML 2019, §4: C(v) = ‖v‖₁/d · sign(v), a
contraction with δ = ‖v‖₁²/(d‖v‖₂²). A zero is sent as plus or minus at random,
so that a weight which never moves is not pushed one way.
"""

from typing import Literal

from fedcore.arrays import array_namespace
from fedcore.compressors._sign import SignConfig
from fedcore.compressors.base import Class
from fedcore.kernels import absolute_sums
from fedcore.typing import Array


class SignL1(SignConfig):
    """The sign of every value, times the mean magnitude of its tensor."""

    kind: Literal["sign_l1"] = "sign_l1"

    @property
    def bias(self) -> Class:
        """δ = ‖v‖₁²/(d‖v‖₂²), at least 1/d."""
        return "contraction"

    @staticmethod
    def scale(rows: Array) -> Array:
        """Returns the mean magnitude of each part."""
        means = absolute_sums(rows) / max(1, rows.shape[-1])
        return array_namespace(rows).astype(means, rows.dtype)
