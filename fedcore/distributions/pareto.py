"""Pareto with minimum 1: a few are very much larger."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fedcore.distributions.base import DistributionConfig


class Pareto(DistributionConfig):
    """At least 1, above x with probability x^-shape."""

    kind: Literal["pareto"] = "pareto"
    shape: float = Field(default=2.0, gt=0)
    """The smaller, the heavier the tail."""

    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Values of at least 1."""
        return 1.0 + rng.pareto(self.shape, count)
