"""Model mixing: x ← (1 - α·λ)·x + α·λ·w_i.

Xie, Koyejo, Gupta, "Asynchronous Federated Optimization", OPT 2020,
arXiv 1903.03934, Algorithm 1; α_t = α·s(τ) with s(τ) = λ. The client's model is
w_i = W_base - q, so the rule needs the public model on which it was trained: the
server keeps one for every version that an update may still be based on.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore import payloads
from fedcore.aggregators.base import Aggregator, AggregatorConfig, Contribution
from fedcore.typing import Vector


class Mixing(AggregatorConfig):
    """α·λ·(x - w_i), averaged over the buffer."""

    kind: Literal["mixing"] = "mixing"
    alpha: float = Field(default=0.6, gt=0, le=1)
    """α, the weight of a fresh client's model."""

    def build(self) -> Aggregator:
        """Returns the aggregator."""
        return Aggregator(
            lambda dim: np.zeros(dim, np.float32),
            self._accumulate,
            _finalize,
            needs=frozenset({"gap"}),
        )

    def _accumulate(self, sum_D: Vector, update: Contribution) -> Vector:
        assert update.gap_D is not None
        gap_D = update.gap_D.copy()  # x - W_base
        payloads.add(update.payload, gap_D)  # x - w_i
        gap_D *= np.float32(self.alpha * update.weight * update.samples)
        sum_D += gap_D
        return sum_D


def _finalize(sum_D: Vector, samples: float) -> Vector:
    return sum_D / np.float32(samples)
