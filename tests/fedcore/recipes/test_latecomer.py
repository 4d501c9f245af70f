"""Latecomer, the default."""

from fedcore.compressors import DeadZone, ErrorFeedback
from fedcore.recipes import Latecomer
from fedcore.staleness import Polynomial


def test_late_updates_are_buffered_and_dampened_by_a_square_root() -> None:
    config = Latecomer()
    assert not config.synchronous
    assert config.buffer == 4
    assert config.staleness == Polynomial(exponent=0.5)
    assert config.deadline is None


def test_nobody_is_asked_how_often_there_is_a_label() -> None:
    assert not Latecomer().uses_labels


def test_both_directions_are_compressed_with_a_memory() -> None:
    config = Latecomer()
    assert config.uplink == ErrorFeedback(inner=DeadZone(ratio=0.05), cap=30)
    assert config.downlink == DeadZone(ratio=0.02)
