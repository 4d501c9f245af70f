"""FedAvgM: FedAvg with momentum at the server.

Hsu, Qi, Brown, arXiv 1909.06335: v ← β·v + Δ, w ← w - v
(:mod:`fedcore.server_optimizers.momentum`).
"""

from typing import ClassVar, Literal

from fedcore.recipes.base import SynchronousConfig
from fedcore.server_optimizers import AnyServerOptimizer, Momentum


class FedAvgM(SynchronousConfig):
    """Synchronous, for clients that differ in their data."""

    paper: ClassVar[str] = "Hsu et al., 2019"
    kind: Literal["fed_avg_m"] = "fed_avg_m"
    weigh_by: Literal["updates", "samples"] = "samples"
    server: AnyServerOptimizer = Momentum()
