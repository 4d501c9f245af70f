"""A learning rate that rises in a line at first, and then follows another schedule.

Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017, arXiv
1706.02677, section 2.2 (gradual warmup).
"""

from typing import Literal

from pydantic import Field

from fedcore.config import Count
from fedcore.lr_schedules.base import AnyLRSchedule, LRScheduleConfig


class WarmUp(LRScheduleConfig):
    """Rises to the full rate, which another schedule may change at the same time."""

    kind: Literal["warm_up"] = "warm_up"
    versions: Count = 10
    """The version from which on the rate is that of ``then``."""
    start: float = Field(default=0.1, gt=0, le=1)
    """The rate at version 0, as a share of that of ``then``."""
    then: AnyLRSchedule | None = None
    """The schedule that the rise is a share of, whose versions count from 0 as well;
    none: the rate stays as it is."""

    def share(self, version: int) -> float:
        """Returns the factor of the rate at a version."""
        risen = min(1.0, version / self.versions)
        then = 1.0 if self.then is None else self.then.share(version)
        return (self.start + (1 - self.start) * risen) * then
