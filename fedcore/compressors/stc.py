"""Sparse ternary compression: the signs of the largest values, and one magnitude.

Sattler, Wiedemann, Müller, Samek, "Robust and Communication-Efficient Federated
Learning from Non-IID Data", IEEE Transactions on Neural Networks and Learning Systems
31(9), 2020, arXiv 1903.02891, Algorithm 1: the k largest magnitudes are kept, and each
becomes their mean with its sign. A contraction: on the kept values the error is
‖v‖² - ‖v‖₁²/k, so δ = ‖v‖₁²/(k‖x‖²) ≥ 1/d.
"""

from typing import ClassVar, Literal

from pydantic import Field

from fedcore.arrays import array_namespace, take
from fedcore.compressors._ratio import RatioConfig
from fedcore.compressors.base import Keys
from fedcore.kernels import absolute_sums, largest_indices
from fedcore.payloads import Payload, levels_payload
from fedcore.typing import Array


class STC(RatioConfig):
    """The signs of the k = max(1, ⌊ratio·d⌋) largest values, times their mean."""

    format: ClassVar[str] = "levels"
    kind: Literal["stc"] = "stc"
    ratio: float = Field(default=0.02, gt=0, le=1)
    """Share of the values that travel."""

    def select(self, delta_D: Array, k: int, key: Keys) -> Payload:
        """Returns the message of the ``k`` largest."""
        xp = array_namespace(delta_D)
        dim = delta_D.shape[-1]
        indices_K = largest_indices(delta_D, k)
        values_K = take(delta_D, indices_K)
        signs_K = xp.astype(xp.sign(values_K), xp.int32)
        mean = xp.asarray(absolute_sums(values_K) / max(1, k), dtype=delta_D.dtype)
        return levels_payload(dim, indices_K, signs_K, mean[..., None], (dim,))
