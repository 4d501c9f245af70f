"""Pareto with minimum 1: a few are very much larger."""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.distributions.base import DistributionConfig, Fitted, Floats


class Pareto(DistributionConfig):
    """At least 1, above x with probability x^-shape: median 2^(1/shape).

    The mean is shape / (shape - 1) where the shape is above 1, and infinite otherwise.
    """

    kind: Literal["pareto"] = "pareto"
    shape: float = Field(default=2.0, ge=0.1)
    """The smaller, the heavier the tail."""

    def quantile(self, u_N: Floats) -> Floats:
        """Returns (1 - u)^(-1/shape)."""
        return np.exp(np.log1p(-u_N) / -self.shape)

    def cdf(self, x_N: Floats) -> Floats:
        """Returns 1 - x^-shape from 1 on."""
        return -np.expm1(-self.shape * np.log(np.maximum(x_N, 1.0)))

    @classmethod
    def fit(cls, x_N: Floats) -> Fitted | None:
        """Fits by maximum likelihood: the minimum, and Hill's estimate of the shape."""
        least = float(x_N.min())
        return Fitted(least, cls(shape=len(x_N) / float(np.log(x_N / least).sum())))
