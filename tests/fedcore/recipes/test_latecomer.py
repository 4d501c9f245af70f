"""Latecomer, the default."""

from fedcore.compressors import ErrorFeedback, TopK
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
    assert config.uplink == ErrorFeedback(inner=TopK(ratio=0.01), cap=30)
    assert config.downlink == TopK(ratio=0.05)
