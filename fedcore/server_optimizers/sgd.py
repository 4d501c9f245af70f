"""Plain SGD: X ← X - η·agg; with η = 1 federated averaging."""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.server_optimizers.base import ServerOptimizer, ServerOptimizerConfig
from fedcore.typing import Vector


class SGD(ServerOptimizerConfig):
    """X ← X - lr·agg."""

    kind: Literal["sgd"] = "sgd"
    lr: float = Field(default=1.0, gt=0)
    """η."""

    def build(self) -> ServerOptimizer:
        """Returns the optimiser."""
        return ServerOptimizer(lambda dim: None, self._update)

    def _update(
        self, exact_D: Vector, agg_D: Vector, state: None
    ) -> tuple[Vector, None]:
        agg_D *= np.float32(self.lr)
        return np.subtract(exact_D, agg_D, out=agg_D), state
