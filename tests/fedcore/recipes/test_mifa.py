"""MIFA: Gu et al., NeurIPS 2021."""

from fedcore.recipes import MIFA


def test_it_is_in_rounds_by_its_own_rule() -> None:
    config = MIFA()
    assert config.synchronous
    assert config.aggregator.kind == "mifa"
    assert config.staleness.kind == "constant"
