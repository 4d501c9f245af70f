"""A constant learning rate."""

from typing import Literal

from fedcore.lr_schedules.base import LRScheduleConfig


class Constant(LRScheduleConfig):
    """The rate stays as it is."""

    kind: Literal["constant"] = "constant"

    def share(self, version: int) -> float:
        """Returns 1."""
        return 1.0
