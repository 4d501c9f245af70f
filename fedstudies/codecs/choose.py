"""The Pareto front of pairs, and the pair to recommend: functions of numbers."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Point(NamedTuple):
    """The bytes of a pair, and the score of the model with it."""

    nbytes: float
    score: float  # higher is better; NaN where the model learnt nothing


_SLACK = 1e-9  # 0.95 - 0.005 is a little more than 0.945


def pareto_front(points: Sequence[Point]) -> list[bool]:
    """Returns which points are on the Pareto front.

    A point is on it if no other point is at least as good in both numbers and better
    in one.
    """
    return [
        _is_known(point) and not any(_dominates(other, point) for other in points)
        for point in points
    ]


def recommend(points: Sequence[Point], tolerance: float) -> int | None:
    """Returns the number of the point with the fewest bytes that is good enough.

    Among points of equal bytes the better score wins, then the earlier place.

    Args:
        points: all points; the first one is uncompressed.
        tolerance: how much worse than the first one a point may be.

    Returns:
        The number, or None if the first point itself has learnt nothing.
    """
    if not points or not _is_known(points[0]):
        return None
    least = points[0].score - tolerance - _SLACK
    enough = [i for i, p in enumerate(points) if _is_known(p) and p.score >= least]
    return min(enough, key=lambda i: (points[i].nbytes, -points[i].score, i))


def _dominates(one: Point, other: Point) -> bool:
    if not _is_known(one):
        return False
    at_least = one.nbytes <= other.nbytes and one.score >= other.score
    return at_least and (one.nbytes < other.nbytes or one.score > other.score)


def _is_known(point: Point) -> bool:
    return math.isfinite(point.nbytes) and math.isfinite(point.score)
