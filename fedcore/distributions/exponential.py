"""Exponential with mean 1: how long something without memory takes."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from fedcore.distributions.base import DistributionConfig


class ExponentialDistribution(DistributionConfig):
    """Mean 1, no memory."""

    kind: Literal["exponential"] = "exponential"

    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Values with mean 1."""
        return rng.exponential(1.0, count) + np.finfo(np.float64).tiny
