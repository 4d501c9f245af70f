"""A learning rate that is multiplied by a factor every so many versions."""

import sys
from typing import Literal

from pydantic import Field

from fedcore.config import Count
from fedcore.lr_schedules.base import LRScheduleConfig


class Step(LRScheduleConfig):
    """Falls in steps of equal length, each by the same factor."""

    kind: Literal["step"] = "step"
    every: Count = 100
    """The number of versions of a step."""
    factor: float = Field(default=0.1, gt=0, le=1)
    """What the rate is multiplied by after each step."""

    def share(self, version: int) -> float:
        """Returns the factor of the rate at a version."""
        return max(self.factor ** (version // self.every), sys.float_info.min)
