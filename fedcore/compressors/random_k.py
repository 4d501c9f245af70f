"""Random-k sparsification: k seeded coordinates travel; their places do not.

Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018 (unscaled, a
contraction with δ = k/d in expectation); Alistarh et al., "The Convergence of
Sparsified Gradient Methods", NeurIPS 2018 (scaled by d/k, unbiased with
ω = d/k - 1).
"""

from typing import ClassVar, Literal

from pydantic import Field

from fedcore.arrays import like, take
from fedcore.compressors._ratio import RatioConfig
from fedcore.compressors.base import Class, Keys
from fedcore.payloads import Payload, draw_support, seeded_payload
from fedcore.rng import seeds
from fedcore.typing import Array


class RandomK(RatioConfig):
    """k = max(1, ⌊ratio·d⌋) coordinates, drawn anew for each message."""

    format: ClassVar[str] = "seeded"
    kind: Literal["random_k"] = "random_k"
    ratio: float = Field(default=0.05, gt=0, le=1)
    """Share of the values that travel."""
    unbiased: bool = False
    """Scale by d/k, so that the expectation is right; never inside a memory."""

    @property
    def bias(self) -> Class:
        """δ = k/d unscaled; ω = d/k - 1 scaled."""
        return "unbiased" if self.unbiased else "contraction"

    def select(self, delta_D: Array, k: int, key: Keys) -> Payload:
        """Returns the message of ``k`` seeded coordinates."""
        dim, seed = delta_D.shape[-1], seeds(key)
        scale = dim / max(1, k) if self.unbiased else 1.0
        values_K = take(delta_D, like(draw_support(dim, seed, k), delta_D))
        return seeded_payload(dim, seed, values_K if scale == 1 else values_K * scale)
