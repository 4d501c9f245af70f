"""Flexible participation: Ruan et al., AISTATS 2021."""

from fedcore import aggregators
from fedcore.recipes import FlexibleParticipation


def test_it_is_federated_averaging_with_scheme_c() -> None:
    config = FlexibleParticipation()
    assert config.synchronous
    assert config.weigh_by == "samples"
    expected = aggregators.FlexibleParticipation(scheme="C", cap=5.0)
    assert config.aggregator == expected
