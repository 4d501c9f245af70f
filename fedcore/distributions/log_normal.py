"""Log-normal with median 1: what device speeds look like."""

from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.distributions._normal import normal_cdf, normal_quantile
from fedcore.distributions.base import DistributionConfig, Fitted, Floats


class LogNormal(DistributionConfig):
    """e^(sigma·z) with z standard normal: median 1, mean e^(sigma²/2)."""

    kind: Literal["log_normal"] = "log_normal"
    sigma: float = Field(default=1.0, ge=0, le=50)
    """Spread: with 1, one client in six is more than 2.7 times the median."""

    def quantile(self, u_N: Floats) -> Floats:
        """Returns e^(sigma·Φ⁻¹(u))."""
        return np.exp(self.sigma * normal_quantile(u_N))

    def cdf(self, x_N: Floats) -> Floats:
        """Returns Φ(ln x / sigma)."""
        if not self.sigma:
            return (x_N >= 1).astype(np.float64)
        return normal_cdf(np.log(x_N) / self.sigma)

    @classmethod
    def fit(cls, x_N: Floats) -> Fitted | None:
        """Fits the mean and the standard deviation of the logarithms."""
        log_N = np.log(x_N)
        return Fitted(float(np.exp(log_N.mean())), cls(sigma=float(log_N.std(ddof=1))))
