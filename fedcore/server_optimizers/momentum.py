"""FedAvgM: v ← β·v + agg; X ← X - η·v.

Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for
Federated Visual Classification", 2019, arXiv 1909.06335, §4.3.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.server_optimizers.base import ServerOptimizer, ServerOptimizerConfig
from fedcore.typing import Vector


class Momentum(ServerOptimizerConfig):
    """Server momentum."""

    kind: Literal["momentum"] = "momentum"
    lr: float = Field(default=1.0, gt=0)
    """η."""
    beta: float = Field(default=0.9, ge=0, lt=1)
    """β."""

    def build(self) -> ServerOptimizer:
        """Returns the optimiser."""
        return ServerOptimizer(lambda dim: np.zeros(dim, np.float32), self._update)

    def _update(
        self, exact_D: Vector, agg_D: Vector, v_D: Vector
    ) -> tuple[Vector, Vector]:
        v_D = np.float32(self.beta) * v_D + agg_D
        return exact_D - np.float32(self.lr) * v_D, v_D
