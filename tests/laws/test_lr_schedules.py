"""The laws that every learning-rate schedule keeps."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fedcore.clients import LocalAdam, LocalSGD, Scaffold
from fedcore.lr_schedules import Cosine, LRScheduleConfig, Points, Step, WarmUp
from tests.laws.registered import named, variants

EVERY = variants(
    LRScheduleConfig,
    WarmUp(versions=3, then=Cosine(after=2, until=9, to=0.5)),
    Points(points=((0, 0.2), (5, 1.0), (6, 0.1)), between="jump"),
    Step(every=1, factor=0.5),
)


@named(EVERY)
@given(st.integers(0, 10**6))
def test_a_share_is_above_0_and_the_same_again(
    config: LRScheduleConfig, version: int
) -> None:
    share = config.share(version)
    assert 0 < share < math.inf
    assert config.share(version) == share


@named(EVERY)
def test_client_algorithms_follow_it(config: LRScheduleConfig) -> None:
    for client in (LocalSGD, LocalAdam, Scaffold):
        whole = client(lr=0.25, schedule=config)
        for version in (0, 3, 50):
            now = whole.at(version)
            assert now.lr == 0.25 * config.share(version)
            assert now.at(version) == now
