"""Shorter messages on slow links, and a daily budget that is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedcore.compressors import ErrorFeedback, Gaia, PerTensor, SignL1, TopK
from fedcore.controllers import Bandwidth, Report
from fedcore.controllers.bandwidth import DAY, Link
from fedcore.recipes import FedBuff

NOON = 1000.5 * DAY


def uploaded(limits: Bandwidth, link: Link, took: float, at: float = NOON) -> Link:
    """The link after an upload."""
    found: Link = limits.build().observe(link, Report(at=at, upload_seconds=took))
    return found


def used(limits: Bandwidth, link: Link, nbytes: int, at: float = NOON) -> Link:
    """The link after so many bytes."""
    found: Link = limits.build().observe(link, Report(at=at, nbytes=nbytes))
    return found


def rest(limits: Bandwidth, link: Link, nbytes: int, at: float = NOON) -> float:
    """How long to wait before so many bytes."""
    return limits.build().rest(link, nbytes, at)


def shares(limits: Bandwidth, rate: float, usual: int, uploads: int) -> list[float]:
    """The shares of uploads over a link of so many bytes a second."""
    link, found = Link(), []
    for _ in range(uploads):
        link = uploaded(limits, link, usual * link.share / rate)
        found.append(link.share)
    return found


def test_messages_shrink_until_they_take_as_long_as_they_may() -> None:
    found = shares(Bandwidth(upload_time=2), rate=100, usual=800, uploads=8)
    assert found[0] == 0.5  # by half at most
    assert found[-1] == pytest.approx(0.25)


def test_on_a_fast_link_they_stay_as_they_are() -> None:
    assert set(shares(Bandwidth(upload_time=2), 1e6, 800, 4)) == {1.0}


def test_they_grow_again_when_the_link_is_better() -> None:
    limits = Bandwidth(upload_time=2)
    link = uploaded(limits, Link(share=0.25), 1.0)
    assert link.share == 0.5
    assert uploaded(limits, link, 0.0).share == 1.0


def test_they_never_get_shorter_than_allowed() -> None:
    found = shares(Bandwidth(upload_time=1e-3, least=0.3), 1, 800, 9)
    assert min(found) == 0.3


def test_latency_alone_does_not_make_the_share_vanish() -> None:
    limits, link = Bandwidth(upload_time=1, least=0.2), Link()
    for _ in range(50):
        link = uploaded(limits, link, 5.0)
    assert link.share == 0.2


def test_who_is_ahead_of_the_days_plan_sends_less_and_who_is_behind_more() -> None:
    limits = Bandwidth(daily=1000)  # 500 by noon
    ahead = used(limits, Link(), 501)
    assert uploaded(limits, ahead, 1.0).share == 0.8
    behind = Link(0.5, 1000, 449)
    assert uploaded(limits, behind, 1.0).share == 0.625
    assert uploaded(limits, Link(0.5, 1000, 475), 1.0).share == 0.5


def test_a_new_day_has_a_new_budget() -> None:
    limits = Bandwidth(daily=1000)
    link = used(limits, Link(), 990)
    assert rest(limits, link, 10) == 0
    assert rest(limits, link, 11) == DAY / 2
    assert rest(limits, link, 11, NOON + DAY / 2) == 0
    assert used(limits, link, 5, NOON + DAY) == Link(1.0, 1001, 5)


def test_a_message_larger_than_a_day_goes_first_in_one() -> None:
    limits = Bandwidth(daily=100)
    assert rest(limits, Link(), 500) == 0
    assert rest(limits, Link(1.0, 1000, 4), 500) == 0  # a heartbeat came before
    assert rest(limits, Link(1.0, 1000, 5), 500) == DAY / 2


@given(
    st.integers(1, 5000),
    st.lists(st.tuples(st.integers(1, 400), st.floats(0, DAY / 10)), max_size=60),
)
def test_no_day_costs_more_than_its_budget(
    daily: int, messages: list[tuple[int, float]]
) -> None:
    limits, link, at = Bandwidth(daily=daily), Link(), NOON
    for nbytes, pause in messages:
        at += pause
        at += rest(limits, link, nbytes, at)
        fresh = link.day != at // DAY or link.used <= daily / 24
        link = uploaded(limits, used(limits, link, nbytes, at), 1.0, at)
        assert link.used <= daily or (fresh and link.used <= nbytes + daily / 24)


def test_limits_that_limit_nothing_are_refused() -> None:
    with pytest.raises(ValidationError, match="set upload_time, daily or both"):
        Bandwidth()


@pytest.mark.parametrize(
    "uplink", [TopK(), SignL1(), ErrorFeedback(inner=SignL1())], ids=lambda u: u.kind
)
def test_an_uplink_that_cannot_send_less_and_keep_the_rest_is_refused(
    uplink: TopK,
) -> None:
    with pytest.raises(ValidationError, match="cannot send less and keep the rest"):
        FedBuff(uplink=uplink, controllers=(Bandwidth(daily=9),))


def test_an_uplink_that_is_refused_is_named_with_what_is_inside() -> None:
    uplink = ErrorFeedback(inner=SignL1())
    with pytest.raises(ValidationError, match="error_feedback around sign_l1 cannot"):
        FedBuff(uplink=uplink, controllers=(Bandwidth(daily=9),))


def test_the_refusal_names_all_that_could_be_inside() -> None:
    with pytest.raises(ValidationError) as caught:
        FedBuff(uplink=SignL1(), controllers=(Bandwidth(daily=9),))
    for kind in ("cyclic", "gaia", "random_k", "semi_discrete", "top_k"):
        assert kind in str(caught.value)
        uplink = {"kind": "error_feedback", "inner": {"kind": kind}}
        limits = [{"kind": "bandwidth", "daily": 9}]
        FedBuff.model_validate({"uplink": uplink, "controllers": limits})
    assert "natural" not in str(caught.value)


@pytest.mark.parametrize("inner", [TopK(), Gaia(), PerTensor(inner=TopK())])
def test_sparsifiers_can_send_less(inner: TopK) -> None:
    config = FedBuff(
        uplink=ErrorFeedback(inner=inner), controllers=(Bandwidth(daily=9),)
    )
    assert config.uplink.shorter(0.5) is not None
