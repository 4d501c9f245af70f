"""FedNova: Wang et al., NeurIPS 2020."""

from fedcore.recipes import FedNova


def test_it_is_in_rounds_by_its_own_rule() -> None:
    config = FedNova()
    assert config.synchronous
    assert config.aggregator.kind == "fed_nova"
    assert config.staleness.kind == "constant"
