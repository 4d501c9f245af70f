"""Latecomer, the default."""

from fedcore.compressors import DeadZone, ErrorFeedback
from fedcore.recipes import Latecomer
from fedcore.staleness import LabelBoost, Polynomial


def test_late_updates_are_buffered_and_dampened_less_if_labels_are_rare() -> None:
    config = Latecomer()
    assert not config.synchronous
    assert config.buffer == 4
    assert config.staleness == LabelBoost(inner=Polynomial(exponent=0.5))
    assert config.deadline is None


def test_both_directions_are_compressed_with_a_memory() -> None:
    config = Latecomer()
    assert config.uplink == ErrorFeedback(inner=DeadZone(ratio=0.05), cap=30)
    assert config.downlink == DeadZone(ratio=0.02)
