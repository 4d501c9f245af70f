"""DynSGD: λ = 1/(τ + 1).

Jiang, Cui, Zhang, Yu, "Heterogeneity-aware Distributed Parameter Servers",
SIGMOD 2017.
"""

from typing import Literal

from fedcore.staleness.base import StalenessConfig, StalenessPolicy, memoryless


class Inverse(StalenessConfig):
    """λ = 1/(τ + 1), as in DynSGD."""

    kind: Literal["inverse"] = "inverse"

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        return memoryless(lambda staleness: 1.0 / (staleness + 1))
