"""The contract of distributions: how much clients of a population differ.

A distribution is its quantile function, so that a device's fate is a pure function of
uniform numbers: value = quantile(u) with u in (0, 1).
"""

from abc import abstractmethod
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.config import Method, OneOf

Floats = npt.NDArray[np.float64]
_LEAST = 2.0**-54  # half a step of ``Generator.random``, whose numbers may be 0


class DistributionConfig(Method):
    """A positive random number that scales something; each kind says what is 1."""

    role: ClassVar[str] = "distribution"

    @abstractmethod
    def quantile(self, u_N: Floats) -> Floats:
        """Returns the values, above 0, below which the shares ``u_N`` of values lie.

        Args:
            u_N: shares in (0, 1).
        """

    @abstractmethod
    def cdf(self, x_N: Floats) -> Floats:
        """Returns the share of values up to each of ``x_N``."""

    @classmethod
    def fit(cls, x_N: Floats) -> "Fitted | None":
        """Fits scale and settings to values; None where that is not possible.

        Args:
            x_N: at least two different values, all above 0.
        """
        return None

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Draws ``count`` independent values, all above 0."""
        return self.quantile(np.maximum(rng.random(count), _LEAST))


class Fitted(NamedTuple):
    """A fit: the values are ``scale`` times those of the distribution."""

    scale: float
    config: DistributionConfig


AnyDistribution = Annotated[DistributionConfig, OneOf()]
