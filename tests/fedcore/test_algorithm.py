"""What an algorithm's settings refuse, and with which sentence."""

from typing import Any

import pytest
from pydantic import ValidationError

from fedcore.aggregators import Mixing
from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import ErrorFeedback, RandomK, Uniform
from fedcore.recipes import FedAsync, FedAvg, FedBuff
from tests.fedcore.coordinator.desk import SPEC


def test_fewer_updates_than_the_buffer_may_be_enough_but_not_more() -> None:
    assert FedBuff(buffer=3, minimum=3).minimum == 3
    with pytest.raises(ValidationError, match="minimum 4 is above buffer 3"):
        FedBuff(buffer=3, minimum=4)


def test_concurrency_is_for_asynchronous_algorithms() -> None:
    assert FedBuff(concurrency=7).concurrency == 7
    with pytest.raises(ValidationError, match="use over_selection"):
        FedAvg(concurrency=7)


def test_over_selection_is_for_synchronous_algorithms() -> None:
    assert FedAvg(over_selection=1.5).cohort == 15
    with pytest.raises(ValidationError, match="use concurrency"):
        FedBuff(over_selection=1.5)


def test_the_server_has_a_memory_in_any_case() -> None:
    with pytest.raises(ValidationError, match=r"name the inner compressor .*\(top_k\)"):
        FedBuff(downlink=ErrorFeedback())


@pytest.mark.parametrize(
    "downlink", [RandomK(unbiased=True), Uniform(bits=2, rounding="stochastic")]
)
def test_the_servers_memory_needs_a_contraction(downlink: Any) -> None:
    with pytest.raises(ValidationError, match="W - X needs a contraction"):
        FedBuff(downlink=downlink)
    assert FedBuff(uplink=downlink).uplink == downlink


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("buffer", 0),
        ("minimum", 0),
        ("staleness_limit", -1),
        ("deadline", 0),
        ("over_selection", 0.9),
        ("samples_cap", 0),
        ("concurrency", 0),
        ("deadline", float("nan")),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValidationError, match=field):
        FedAvg.model_validate({field: value})


@pytest.mark.parametrize(
    ("config", "clients", "limit"),
    [
        (FedBuff(buffer=4), 0, 100),
        (FedBuff(buffer=4), 20, 100),
        (FedBuff(buffer=4), 1_000, 5_000),
        (FedBuff(buffer=4), 10_000, 50_000),
        (FedBuff(buffer=40), 10_000, 5_000),
        (FedBuff(buffer=4, concurrency=100), 10_000, 500),
        (FedBuff(buffer=4, staleness_limit=7), 10_000, 7),
        (FedBuff(buffer=4, aggregator=Mixing()), 10_000, 100),
        (FedAvg(), 10_000, 0),
        (FedAsync(), 10_000, 16),
    ],
)
def test_the_staleness_limit_follows_what_can_be_in_flight(
    config: AlgorithmConfig, clients: int, limit: int
) -> None:
    assert config.build(SPEC).latest(clients) == limit
