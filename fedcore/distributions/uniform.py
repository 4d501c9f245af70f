"""Uniform between two bounds."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from fedcore.distributions.base import DistributionConfig


class UniformDistribution(DistributionConfig):
    """Between low and high."""

    kind: Literal["uniform"] = "uniform"
    low: float = Field(default=0.5, gt=0)
    """The least value."""
    high: float = Field(default=1.5, gt=0)
    """The largest value."""

    @model_validator(mode="after")
    def _ordered(self) -> "UniformDistribution":
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        return self

    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Values between the bounds."""
        return rng.uniform(self.low, self.high, count)
