"""Exponential with mean 1: how long something without memory takes."""

from typing import Literal

import numpy as np

from fedcore.distributions.base import DistributionConfig, Fitted, Floats


class ExponentialDistribution(DistributionConfig):
    """Mean 1, median 0.69, no memory."""

    kind: Literal["exponential"] = "exponential"

    def quantile(self, u_N: Floats) -> Floats:
        """Returns -ln(1 - u)."""
        return -np.log1p(-u_N)

    def cdf(self, x_N: Floats) -> Floats:
        """Returns 1 - e^-x."""
        return -np.expm1(-x_N)

    @classmethod
    def fit(cls, x_N: Floats) -> Fitted | None:
        """Fits the mean."""
        return Fitted(float(x_N.mean()), cls())
