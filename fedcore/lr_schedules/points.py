"""A learning rate along a list of points of one's own."""

from bisect import bisect_right
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedcore.config import Versions
from fedcore.lr_schedules.base import LRScheduleConfig

Point = tuple[Versions, Annotated[float, Field(gt=0)]]


class Points(LRScheduleConfig):
    """Goes from point to point, in lines or in jumps."""

    kind: Literal["points"] = "points"
    points: tuple[Point, ...] = Field(min_length=1)
    """Pairs of a version and the rate's share there, such as [[0, 1], [100, 0.1]].
    Before the first and after the last one the rate is constant."""
    between: Literal["line", "jump"] = "line"
    """In a line from point to point, or as it is until the next point."""

    @model_validator(mode="after")
    def _rises(self) -> Self:
        for (before, _), (after, _) in pairwise(self.points):
            if after <= before:
                raise ValueError(
                    f"points: version {after} is not above version {before}"
                )
        return self

    @classmethod
    def example(cls) -> Self:
        """Falls to a tenth, in a line."""
        return cls(points=((0, 1.0), (10, 0.1)))

    def share(self, version: int) -> float:
        """Returns the factor of the rate at a version."""
        place = bisect_right([at for at, _ in self.points], version)
        if place == 0:
            return self.points[0][1]
        (from_version, low), after = self.points[place - 1], self.points[place:]
        if not after or self.between == "jump":
            return low
        until, high = after[0]
        return low + (high - low) * (version - from_version) / (until - from_version)
