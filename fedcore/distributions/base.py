"""The contract of distributions: how much clients of a population differ."""

from abc import abstractmethod
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from fedcore.config import Method, OneOf


class DistributionConfig(Method):
    """A positive random number; its median or mean is 1, so it scales something."""

    role: ClassVar[str] = "distribution"

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """``count`` independent values, all above 0."""


AnyDistribution = Annotated[DistributionConfig, OneOf()]
