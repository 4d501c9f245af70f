"""Gaia's control of bandwidth: how the threshold follows what is used."""

import pytest
from pydantic import ValidationError

from fedcore import compressors
from fedcore.compressors import ErrorFeedback, TopK
from fedcore.controllers import Gaia, Report
from fedcore.recipes import FedBuff
from fedcore.typing import State


def thresholds(rule: Gaia, nbytes: list[int]) -> list[float]:
    """The uplink's threshold after each message, sent every 10 seconds."""
    controller, inner = rule.build(), compressors.Gaia(threshold=rule.threshold)
    state: State = controller.init()
    found = []
    for number, size in enumerate(nbytes):
        report = Report(at=10.0 * number, nbytes=size, upload_seconds=1.0)
        state = controller.observe(state, report)
        shorter = inner.shorter(controller.assign(state).density)
        assert shorter is not None
        found.append(round(shorter.threshold, 6))
    return found


def test_the_threshold_rises_above_the_limit_and_falls_below_it() -> None:
    rule = Gaia(limit=100)  # 1,000 bytes between two messages
    used = [5000, 1101, 1101, 1099, 901, 899, 899, 899]
    assert thresholds(rule, used) == [
        *(0.01, 0.015, 0.02),  # the first message has no time before it
        *(0.02, 0.02),  # 0.9 to 1.1 times the limit is as it should be
        *(0.015, 0.01, 0.01),  # never below T
    ]


def test_the_threshold_has_a_ceiling() -> None:
    assert thresholds(Gaia(limit=1, most=0.018), [9999] * 4)[1:] == [
        *(0.015, 0.018, 0.018)
    ]


def test_downloads_count_as_well() -> None:
    controller = Gaia(limit=100).build()
    state = controller.init()
    for at, nbytes in ((0.0, 10), (10.0, 10)):
        state = controller.observe(state, Report(at=at, nbytes=1100))
        report = Report(at=at, nbytes=nbytes, upload_seconds=1.0)
        state = controller.observe(state, report)
    assert controller.assign(state).density == pytest.approx(0.01 / 0.015)


@pytest.mark.parametrize(
    "uplink",
    [
        ErrorFeedback(inner=TopK(ratio=0.1)),
        ErrorFeedback(inner=compressors.Gaia(threshold=0.02)),
        compressors.Gaia(),
    ],
)
def test_it_stands_beside_a_threshold_of_the_same_height(uplink: object) -> None:
    with pytest.raises(ValidationError, match="controllers: gaia raises a threshold"):
        FedBuff(uplink=uplink, controllers=(Gaia(limit=100),))
    FedBuff(
        uplink=ErrorFeedback(inner=compressors.Gaia()), controllers=(Gaia(limit=100),)
    )
