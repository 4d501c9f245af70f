"""Polynomial dampening: λ = (1 + τ)^-a.

Xie, Koyejo, Gupta, "Asynchronous Federated Optimization", OPT 2020,
arXiv 1903.03934, §5.2; with a = ½ in FedBuff (Nguyen et al., AISTATS 2022).
"""

from typing import Literal

from pydantic import Field

from fedcore.staleness.base import StalenessConfig, StalenessPolicy, memoryless


class Polynomial(StalenessConfig):
    """λ = (1 + τ)^-exponent."""

    kind: Literal["polynomial"] = "polynomial"
    exponent: float = Field(default=0.5, ge=0)
    """a; 0 dampens nothing."""

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        return memoryless(lambda staleness: (1.0 + staleness) ** -self.exponent)
