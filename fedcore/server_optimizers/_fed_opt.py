"""The frame of Adagrad, Adam and Yogi: FedOpt.

Reddi et al., "Adaptive Federated Optimization", ICLR 2021, arXiv 2003.00295,
Algorithm 2: m ← β₁·m + (1 - β₁)·Δ; v by the method; X ← X + η·m/(√v + τ). There is
no bias correction in the paper, and none here; v starts at τ², the least that the
algorithm allows. Values of Δ above 2^50 count as that, or one absurd update would make
v infinite, and the model would never move again.
"""

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from pydantic import Field

from fedcore.server_optimizers.base import ServerOptimizer, ServerOptimizerConfig
from fedcore.typing import Vector

LARGEST = np.float32(2.0**50)  # of Δ: the sum of a billion squares is a float32


class FedOptState(NamedTuple):
    """First and second moments of the pseudo-gradient."""

    m_D: Vector
    v_D: Vector


class FedOptConfig(ServerOptimizerConfig):
    """The settings of the adaptive server optimisers."""

    lr: float = Field(default=0.1, gt=0)
    """η."""
    beta_1: float = Field(default=0.9, ge=0, lt=1)
    """β₁."""
    tau: float = Field(default=1e-3, gt=0)
    """τ, the degree of adaptivity: the larger, the closer to plain SGD."""

    @abstractmethod
    def second_moment(self, v_D: Vector, square_D: Vector) -> Vector:
        """Returns the new v (D,), given the old one and Δ²."""

    def build(self) -> ServerOptimizer:
        """Returns the optimiser."""
        return ServerOptimizer(self._init, self._update)

    def _init(self, dim: int) -> FedOptState:
        tau = np.float32(self.tau)
        return FedOptState(
            np.zeros(dim, np.float32), np.full(dim, tau * tau, np.float32)
        )

    def _update(
        self, exact_D: Vector, agg_D: Vector, state: FedOptState
    ) -> tuple[Vector, FedOptState]:
        beta_1 = np.float32(self.beta_1)
        agg_D = np.clip(agg_D, -LARGEST, LARGEST)
        m_D = beta_1 * state.m_D - (np.float32(1) - beta_1) * agg_D
        v_D = self.second_moment(state.v_D, agg_D * agg_D)
        scale_D: Vector = np.sqrt(v_D) + np.float32(self.tau)
        step_D: Vector = np.float32(self.lr) * m_D / scale_D
        return exact_D + step_D, FedOptState(m_D, v_D)
