"""Learning-rate schedules, worked out by hand."""

import math

import pytest
from pydantic import ValidationError

from fedcore.lr_schedules import (
    Constant,
    Cosine,
    Linear,
    LRScheduleConfig,
    Points,
    Step,
    WarmUp,
)

POINTS = ((10, 1.0), (20, 0.5), (30, 0.1))


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        (Constant(), {0: 1, 10**9: 1}),
        (Linear(after=4, until=8, to=0.5), {0: 1, 4: 1, 6: 0.75, 8: 0.5, 99: 0.5}),
        (Cosine(until=6, to=0.2), {0: 1, 2: 0.2 + 0.8 * 0.75, 3: 0.6, 6: 0.2, 7: 0.2}),
        (Step(every=3, factor=0.1), {0: 1, 2: 1, 3: 0.1, 6: 0.01}),
        (Points(points=POINTS), {0: 1, 10: 1, 15: 0.75, 25: 0.3, 30: 0.1, 31: 0.1}),
        (Points(points=POINTS, between="jump"), {0: 1, 19: 1, 20: 0.5, 29: 0.5}),
        (WarmUp(versions=4, start=0.2), {0: 0.2, 2: 0.6, 4: 1, 5: 1}),
        (
            WarmUp(versions=4, start=0.5, then=Step(every=2, factor=0.5)),
            {0: 0.5, 2: 0.75 * 0.5, 4: 0.25},
        ),
    ],
)
def test_shares_by_hand(schedule: LRScheduleConfig, shares: dict[int, float]) -> None:
    found = {version: schedule.share(version) for version in shares}
    assert found == pytest.approx(shares)


def test_a_rate_never_becomes_0() -> None:
    assert Step(every=1, factor=0.1).share(10**6) > 0
    assert math.isfinite(1 / Step(every=1, factor=0.1).share(10**6))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"points": []}, "at least 1 item"),
        ({"points": [[5, 1.0], [5, 0.5]]}, "version 5 is not above version 5"),
        ({"points": [[5, 0.0]]}, "greater than 0"),
        ({"points": [[-1, 1.0]]}, "greater than or equal to 0"),
    ],
)
def test_points_out_of_order_are_refused(
    settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        Points.model_validate(settings)
