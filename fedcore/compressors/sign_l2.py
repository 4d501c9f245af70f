"""Scaled sign: one bit a value, times the root of the mean square.

Tang, Lian, Yu, Zhang, Liu, "DoubleSqueeze: Parallel Stochastic Gradient Descent
with Double-Pass Error-Compensated Compression", ICML 2019, §5; Tang et al., "1-bit
Adam", ICML 2021, §3: C(v) = ‖v‖₂/√d · sign(v), which keeps the norm. Its error is
2‖v‖₂² - 2‖v‖₁‖v‖₂/√d: no contraction where ‖v‖₁ < √d‖v‖₂/2, as of sparse
vectors. Both papers keep a memory around it; here an error memory refuses it, and
``sign_l1`` is the one to take. A zero is sent as plus or minus at random.
"""

from typing import Literal

from fedcore.arrays import array_namespace
from fedcore.compressors._sign import SignConfig
from fedcore.compressors.base import Class
from fedcore.kernels import square_sums
from fedcore.typing import Array


class SignL2(SignConfig):
    """The sign of every value, times the root mean square of its tensor."""

    kind: Literal["sign_l2"] = "sign_l2"

    @property
    def bias(self) -> Class:
        """The error of a sparse vector is up to 2‖v‖²."""
        return "neither"

    @staticmethod
    def scale(rows: Array) -> Array:
        """Returns the root mean square of each part."""
        xp = array_namespace(rows)
        roots = xp.sqrt(square_sums(rows) / max(1, rows.shape[-1]))
        return xp.astype(roots, rows.dtype)
