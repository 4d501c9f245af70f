"""FedBuff: Nguyen et al., AISTATS 2022."""

from fedcore.recipes import FedBuff
from fedcore.staleness import Polynomial


def test_it_buffers_ten_updates_and_dampens_by_the_root_of_staleness() -> None:
    config = FedBuff()
    assert not config.synchronous
    assert config.buffer == 10
    assert config.staleness == Polynomial(exponent=0.5)
    assert config.weigh_by == "updates"
    assert config.staleness_limit is None
