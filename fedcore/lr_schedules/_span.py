"""Schedules that fall from one version to another."""

from typing import Self

from pydantic import Field, model_validator

from fedcore.config import Count, Versions
from fedcore.lr_schedules.base import LRScheduleConfig


class Span(LRScheduleConfig):
    """Settings of schedules that are constant before one version and after another."""

    after: Versions = 0
    """The version until which the rate stays as it is."""
    until: Count
    """The version from which on it stays at its lowest."""
    to: float = Field(default=0.01, gt=0, le=1)
    """The lowest rate, as a share of lr."""

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.until <= self.after:
            raise ValueError(f"until {self.until} is not above after {self.after}")
        return self

    @classmethod
    def example(cls) -> Self:
        """Falls over ten versions."""
        return cls(until=10)  # type: ignore[call-arg]  # subclasses have a kind

    def progress(self, version: int) -> float:
        """Returns which share of the way is behind, 0 to 1."""
        share = (version - self.after) / (self.until - self.after)
        return min(1.0, max(0.0, share))
