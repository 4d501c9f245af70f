"""Hinge dampening: λ = 1 up to a bound, then 1/(a(τ - b) + 1).

Xie, Koyejo, Gupta, "Asynchronous Federated Optimization", OPT 2020,
arXiv 1903.03934, §5.2. We add 1 to the paper's a(τ - b), as its own code does,
so that λ ≤ 1 and λ is continuous at the bound.
"""

from typing import Literal

from pydantic import Field

from fedcore.staleness.base import StalenessConfig, StalenessPolicy, memoryless


class Hinge(StalenessConfig):
    """λ = 1 while τ ≤ bound, else 1/(slope·(τ - bound) + 1)."""

    kind: Literal["hinge"] = "hinge"
    slope: float = Field(default=10.0, ge=0)
    """a."""
    bound: int = Field(default=4, ge=0)
    """b, in versions."""

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        return memoryless(
            lambda staleness: 1.0 / (self.slope * max(0, staleness - self.bound) + 1.0)
        )
