"""Uniform between two bounds."""

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from fedcore.distributions.base import DistributionConfig, Fitted, Floats


class UniformDistribution(DistributionConfig):
    """Between low and high: mean and median are in the middle."""

    kind: Literal["uniform"] = "uniform"
    low: float = Field(default=0.5, gt=0)
    """The least value."""
    high: float = Field(default=1.5, gt=0)
    """The largest value."""

    @model_validator(mode="after")
    def _check_order(self) -> "UniformDistribution":
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        return self

    def quantile(self, u_N: Floats) -> Floats:
        """Returns the point at the share u of the way from low to high."""
        return self.low + (self.high - self.low) * u_N

    def cdf(self, x_N: Floats) -> Floats:
        """Returns the share of the way from low to high that x has covered, 0 to 1."""
        if self.low == self.high:
            return (x_N >= self.low).astype(np.float64)
        return np.clip((x_N - self.low) / (self.high - self.low), 0.0, 1.0)

    @classmethod
    def fit(cls, x_N: Floats) -> Fitted | None:
        """Fits the extremes, in units of the middle between them."""
        low, high = float(x_N.min()), float(x_N.max())
        middle = (low + high) / 2
        return Fitted(middle, cls(low=low / middle, high=high / middle))
