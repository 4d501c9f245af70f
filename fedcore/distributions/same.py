"""No difference: always 1."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from fedcore.distributions.base import DistributionConfig


class Same(DistributionConfig):
    """Always 1."""

    kind: Literal["same"] = "same"

    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Ones."""
        return np.ones(count)
