"""Every update counts in full, however late: λ = 1 (FedAvg)."""

from typing import Literal

from fedcore.staleness.base import StalenessConfig, StalenessPolicy, memoryless


class Constant(StalenessConfig):
    """λ = 1."""

    kind: Literal["constant"] = "constant"

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        return memoryless(lambda staleness: 1.0)
