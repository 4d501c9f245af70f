"""The sentence on how late the updates of a run were."""

import numpy as np
import pytest

from fedview.report.staleness import _how_late


@pytest.mark.parametrize(
    ("staleness", "sentence"),
    [
        ([0, 0, 0], "No update was late."),
        (
            [0, 0, 0, 3],
            "Half of the updates were not late, 95&nbsp;% at most 3 versions, "
            "the latest 3.",
        ),
        (
            [0, 1, 1, 40],
            "Half of the updates were at most 1 version late, 95&nbsp;% at most 40 "
            "versions, the latest 40.",
        ),
    ],
)
def test_updates_that_are_not_late_are_not_said_to_be(
    staleness: list[int], sentence: str
) -> None:
    assert _how_late(np.array(staleness, np.float64)) == sentence
