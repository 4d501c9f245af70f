"""Log-normal with median 1: what device speeds look like."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fedcore.distributions.base import DistributionConfig


class LogNormal(DistributionConfig):
    """e^(sigma·z) with z standard normal."""

    kind: Literal["log_normal"] = "log_normal"
    sigma: float = Field(default=1.0, ge=0)
    """Spread: with 1, one client in six is more than 2.7 times the median."""

    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Values with median 1."""
        return rng.lognormal(0.0, self.sigma, count)
