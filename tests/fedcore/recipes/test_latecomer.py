"""Latecomer, the default."""

from fedcore.compressors import DeadZone, ErrorFeedback
from fedcore.recipes import Latecomer
from fedcore.staleness import AdaSGD


def test_late_updates_are_buffered_and_weighed_by_ada_sgd() -> None:
    config = Latecomer()
    assert not config.synchronous
    assert config.buffer == 4
    assert config.staleness == AdaSGD(percentile=90)
    assert config.deadline is None


def test_both_directions_are_compressed_with_a_memory() -> None:
    config = Latecomer()
    assert config.uplink == ErrorFeedback(inner=DeadZone(ratio=0.05), cap=30)
    assert config.downlink == DeadZone(ratio=0.02)
