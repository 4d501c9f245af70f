"""The mean of each coordinate without its largest and smallest values.

Yin, Chen, Kannan, Bartlett, "Byzantine-Robust Distributed Learning: Towards
Optimal Statistical Rates", ICML 2018, Definition 2: ⌊βn⌋ values are cut on each
side. Holds the whole buffer in memory.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.aggregators._stack import Stack, empty, keep, stack_values
from fedcore.aggregators.base import Aggregator, AggregatorConfig
from fedcore.typing import Vector


class TrimmedMean(AggregatorConfig):
    """The mean after ⌊trim·n⌋ values were cut on each side."""

    kind: Literal["trimmed_mean"] = "trimmed_mean"
    trim: float = Field(default=0.1, ge=0, lt=0.5)
    """β, the share that is cut on each side."""

    def build(self) -> Aggregator:
        """Returns the aggregator."""
        return Aggregator(empty, keep, self._finalize)

    def _finalize(self, stack: Stack, samples: float) -> Vector:
        cut = int(self.trim * len(stack))
        sorted_ND = np.sort(stack_values(stack), axis=0)
        kept_ND = sorted_ND[cut : len(stack) - cut]
        mean_D: Vector = kept_ND.mean(axis=0, dtype=np.float32)
        return mean_D
