"""CA2FL: Wang et al., ICLR 2024."""

from fedcore import aggregators
from fedcore.recipes import CA2FL
from fedcore.staleness import Constant


def test_it_buffers_and_dampens_nothing() -> None:
    config = CA2FL()
    assert not config.synchronous
    assert config.buffer == 10
    assert config.aggregator == aggregators.CA2FL()
    assert config.staleness == Constant()
