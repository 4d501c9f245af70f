"""Latecomer, the default."""

from fedcore.compressors import DeadZone, ErrorFeedback
from fedcore.recipes import Latecomer
from fedcore.selection import All
from fedcore.server_optimizers import ScheduleFree
from fedcore.staleness import DelayAdaptive, LabelBoost


def test_late_updates_are_buffered_and_dampened_less_if_labels_are_rare() -> None:
    config = Latecomer()
    assert not config.synchronous
    assert config.buffer == 4
    assert config.staleness == LabelBoost(inner=DelayAdaptive(limit=2.5))
    assert config.deadline is None


def test_the_models_are_averaged_and_tasks_are_given_in_turn() -> None:
    config = Latecomer()
    assert config.server == ScheduleFree(lr=2)
    assert config.selection == All()


def test_both_directions_are_compressed_with_a_memory() -> None:
    config = Latecomer()
    assert config.uplink == ErrorFeedback(inner=DeadZone(ratio=0.05), cap=30)
    assert config.downlink == DeadZone(ratio=0.02)
