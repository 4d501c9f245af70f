"""Two methods of one's own: a staleness policy, and a server optimiser.

Name this file in the config (``methods: my_methods.py``), and their kinds in
``algorithm:``. Check them with ``python -m latecomer.laws my_methods.py``.
"""

import math
from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.config import Roles
from fedcore.server_optimizers import ServerOptimizer, ServerOptimizerConfig
from fedcore.staleness import StalenessConfig, StalenessPolicy
from fedcore.staleness.base import memoryless


class Logarithmic(StalenessConfig):
    """Dampens an update of staleness τ by 1 / ln(e + τ)."""

    kind: Literal["logarithmic"] = "logarithmic"

    def fits(self, roles: Roles) -> None:
        """Refuses rounds, in which no update is late."""
        if roles.synchronous:
            raise ValueError(
                "staleness: logarithmic is for asynchronous algorithms; take constant"
            )

    def build(self) -> StalenessPolicy:
        """Returns the policy."""
        return memoryless(lambda staleness: 1.0 / math.log(math.e + staleness))


class Signs(ServerOptimizerConfig):
    """Moves each value by one length, in the direction of the aggregate."""

    kind: Literal["signs"] = "signs"
    lr: float = Field(default=0.01, gt=0)
    """The length."""

    def build(self) -> ServerOptimizer:
        """Returns the optimiser."""
        lr = np.float32(self.lr)
        return ServerOptimizer(
            lambda dim: None,
            lambda x_D, agg_D, state: (x_D - lr * np.sign(agg_D), state),
        )
