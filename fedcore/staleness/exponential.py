"""Exponential dampening with a fixed rate: λ = e^(-βτ)."""

import math
from typing import Literal

from pydantic import Field

from fedcore.staleness.base import StalenessConfig, StalenessPolicy, memoryless


class Exponential(StalenessConfig):
    """λ = e^(-rate·τ)."""

    kind: Literal["exponential"] = "exponential"
    rate: float = Field(default=0.2, ge=0)
    """β, per version."""

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        return memoryless(lambda staleness: math.exp(-self.rate * staleness))
