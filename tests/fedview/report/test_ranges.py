"""What values a metric can take."""

import math

import numpy as np
import pytest

from fedview.report.ranges import axis_range, limits

INF = math.inf


@pytest.mark.parametrize(
    ("metric", "values", "expected"),
    [
        ("accuracy", [0.1, 0.9], (0, 1)),
        ("accuracy", [10.0, 90.0], (0, 100)),  # per cent
        ("val_AUC", [0.5, math.nan], (0, 1)),
        ("f1 macro", [], (0, 1)),
        ("top5", [0.2], (0, 1)),
        ("accuracy", [-3.0], (-INF, INF)),  # whatever it is, it is none
        ("loss", [0.0, 9.0], (0, INF)),
        ("loss", [-2.0], (-INF, INF)),  # a log-likelihood
        ("r2", [0.3], (-INF, INF)),
        ("apples", [0.3], (-INF, INF)),
    ],
)
def test_the_limits_follow_the_name_and_the_values(
    metric: str, values: list[float], expected: tuple[float, float]
) -> None:
    assert limits(metric, np.array(values)) == expected


def test_an_axis_holds_what_is_drawn_and_ends_at_the_limit() -> None:
    values = np.array([0.5, 1.0])
    low, high = axis_range("accuracy", values, [values, np.array([0.4])])
    assert low < 0.4
    assert high == pytest.approx(1.0 + 0.02 * 0.6)
    assert axis_range("accuracy", values, [np.array([1.0, 1.7])])[1] <= 1.02


def test_an_axis_of_nothing_or_of_one_value_has_a_size() -> None:
    assert axis_range("loss", np.empty(0), []) == [0.0, 1.0]
    low, high = axis_range("loss", np.array([0.0]), [np.array([0.0])])
    assert low < high
