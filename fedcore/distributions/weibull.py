"""Weibull with mean 1: lifetimes, from heavy-tailed to nearly constant.

Weibull, "A Statistical Distribution Function of Wide Applicability", Journal of
Applied Mechanics 18, 1951. His scale is 1 / Γ(1 + 1/shape) here, so that the mean is 1.
"""

import math
from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.distributions.base import DistributionConfig, Fitted, Floats

_FLATTEST, _STEEPEST = 0.1, 100.0  # shapes between which bisection searches


class Weibull(DistributionConfig):
    """Mean 1, median (ln 2)^(1/shape) / Γ(1 + 1/shape).

    With shape 1 it is the exponential distribution.
    """

    kind: Literal["weibull"] = "weibull"
    shape: float = Field(default=1.5, ge=0.1)
    """Below 1 a few are very large; the larger, the more alike."""

    @property
    def _scale(self) -> float:
        return math.exp(-math.lgamma(1 + 1 / self.shape))

    def quantile(self, u_N: Floats) -> Floats:
        """Returns scale · (-ln(1 - u))^(1/shape)."""
        return self._scale * np.exp(np.log(-np.log1p(-u_N)) / self.shape)

    def cdf(self, x_N: Floats) -> Floats:
        """Returns 1 - e^-(x/scale)^shape."""
        return -np.expm1(-((x_N / self._scale) ** self.shape))

    @classmethod
    def fit(cls, x_N: Floats) -> Fitted | None:
        """Fits mean and variance; bisection finds the shape."""
        mean = float(x_N.mean())
        target = math.log1p(float(x_N.var(ddof=1)) / mean**2)
        low, high = _FLATTEST, _STEEPEST
        for _ in range(60):
            middle = math.sqrt(low * high)
            # ln(1 + variance / mean²) falls as the shape grows.
            spread = math.lgamma(1 + 2 / middle) - 2 * math.lgamma(1 + 1 / middle)
            low, high = (middle, high) if spread > target else (low, middle)
        return Fitted(mean, cls(shape=math.sqrt(low * high)))
