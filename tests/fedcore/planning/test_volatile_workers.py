"""The search for the cheapest plan, in the planner's own model."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.active_workers import distribution_of_bids, moments_of
from fedcore.planning.error_model import ErrorModel
from fedcore.planning.preemption import (
    cut_before,
    draw_inner_stays,
    draw_stays,
    ready_stays,
    sum_paid_seconds,
)
from fedcore.planning.volatile_workers import (
    Group,
    Growth,
    Offer,
    Plan,
    Predictor,
    Question,
    Way,
    all_plans,
    cheapest,
    frontier,
    half_and_half,
    lower_share,
    most_saved,
    on_demand_only,
    plain,
    with_preemptible,
)

MODEL = ErrorModel(0.05, 0.6, 0.9, 0.4, 1.0, 0.1, 1.0, 100)
ROUNDS = Way("synchronous", None, MODEL, MODEL, [1.0])
BUFFERED = Way("buffered", None, MODEL, MODEL, [1.0])
CHEAP = Offer(0.3, 900.0, 300.0)
QUESTION = Question(0.2, 1.0, deadline=600.0)


def plan_of(question: Question, way: Way, *given: Any, **more: Any) -> Plan | None:
    return Predictor(question, way).plan(*given, **more)


def plans(question: Question = QUESTION, offer: Offer = CHEAP) -> list[Plan]:
    return all_plans(question, [ROUNDS, BUFFERED], [offer], 8)


@settings(max_examples=30)
@given(
    st.floats(0.08, 0.6),
    st.floats(1.0, 600.0),
    st.floats(0.05, 2.0),
    st.floats(10.0, 1e4),
    st.floats(10.0, 1e4),
)
def test_no_plan_violates_the_error_in_the_planners_own_model(
    error: float, deadline: float, price: float, up: float, down: float
) -> None:
    question = Question(error, 1.0, deadline=deadline)
    found = plans(question, Offer(price, up, down))
    assert all(plan.error <= error for plan in found)
    best = cheapest(found, question)
    alone = cheapest(on_demand_only(found), question)
    assert best is None or best.seconds <= deadline
    # All on demand is among the plans, so that it is never cheaper than the choice.
    assert alone is None or (best is not None and best.cost <= alone.cost * 1.000000001)


def test_the_frontier_rises_in_time_and_falls_in_cost() -> None:
    front = frontier(plans())
    assert len(front) > 1
    for sooner, later in pairwise(front):
        assert sooner.seconds <= later.seconds
        assert sooner.cost > later.cost
    assert not any(
        plan.seconds < edge.seconds and plan.cost < edge.cost
        for plan in plans()
        for edge in front
    )


def test_the_last_bit_does_not_choose_between_equal_plans() -> None:
    one = plans()[0]
    late = replace(one, seconds=one.seconds * 2, on_demand=one.on_demand + 1)
    for bit in (-np.inf, np.inf):
        cheaper = float(np.nextafter(one.cost, bit))
        sooner = float(np.nextafter(one.seconds, bit))
        dearer = replace(one, seconds=sooner, cost=one.cost * 2)
        found = frontier([replace(late, cost=cheaper), one, dearer])
        assert found == [one]


def test_cheap_preemptible_workers_are_chosen_and_dear_ones_are_not() -> None:
    assert cheapest(plans(), QUESTION).preemptible  # type: ignore[union-attr]
    dear = cheapest(plans(offer=CHEAP._replace(price=3.0)), QUESTION)
    assert dear is not None
    assert dear.preemptible == 0


@settings(max_examples=30)
@given(st.floats(0.1, 3.0), st.floats(0.5, 1e4), st.floats(10.0, 1e4))
def test_the_same_tasks_save_what_the_prices_allow(
    price: float, up: float, down: float
) -> None:
    offer = Offer(price, up, down)
    for alone in on_demand_only(plans(offer=offer)):
        most = most_saved(alone, [offer])
        preemptible = (Group(offer, alone.workers),)
        same = plan_of(QUESTION, alone.way, 0, preemptible, alone.buffer)
        if same is not None and alone.way is BUFFERED and most:
            assert 1 - same.cost / alone.cost == pytest.approx(most, abs=1e-6)


def test_the_most_that_can_be_saved_follows_the_price_and_the_lost_tasks() -> None:
    alone = plan_of(QUESTION._replace(error=0.5), ROUNDS, 1)
    assert alone is not None
    assert most_saved(alone, [Offer(0.25, np.inf, 9.0)]) == pytest.approx(0.75)
    # e^-1 of the tasks are finished: each one costs e times as much.
    often = Offer(0.25, 1.0, 9.0)
    assert most_saved(alone, [often]) == pytest.approx(1 - 0.25 * np.e)
    assert most_saved(alone, [often, Offer(0.5, np.inf, 0.0)]) == pytest.approx(0.5)
    assert most_saved(alone, [Offer(0.25, 1e-4, 9.0)]) == 0


def test_only_preemptible_workers_bid() -> None:
    offer = CHEAP._replace(bid=0.4)
    found = {plan.bid for plan in on_demand_only(plans(offer=offer))}
    assert found == {None}
    assert {plan.bid for plan in with_preemptible(plans(offer=offer))} == {0.4}


def test_plans_count_the_tasks_of_workers_that_are_there() -> None:
    offer = Offer(0.3, 1e9, 1e9)
    rounds = plan_of(QUESTION._replace(error=0.5), ROUNDS, 1, (Group(offer, 1),))
    assert rounds is not None
    assert rounds.tasks == pytest.approx(1.5 * rounds.versions)
    assert rounds.worker_seconds == pytest.approx(1.5 * rounds.seconds)


def test_frequent_preemption_moves_work_to_workers_on_demand() -> None:
    calm = cheapest(plans(), QUESTION)
    stormy = cheapest(plans(offer=Offer(0.3, 0.5, 300.0)), QUESTION)
    assert calm is not None
    assert stormy is not None
    assert stormy.preemptible * calm.workers < calm.preemptible * stormy.workers


def test_a_budget_alone_gets_the_soonest_plan_that_it_pays_for() -> None:
    question = Question(0.2, 1.0, budget=0.01)
    found = plans(question)
    best = cheapest(found, question)
    assert best is not None
    assert best.cost <= 0.01
    assert best.seconds == min(p.seconds for p in found if p.cost <= 0.01)


@pytest.mark.parametrize(
    ("deadline", "budget"), [(20.0, None), (None, 0.03), (20.0, 0.03)]
)
def test_behind_the_best_plan_each_one_is_better_in_the_other_respect(
    deadline: float | None, budget: float | None
) -> None:
    question = Question(0.2, 1.0, deadline=deadline, budget=budget)
    found = question.order(plans(question))
    assert found[0] == cheapest(plans(question), question)
    assert len(found) > 3
    assert all(question.keeps(plan) for plan in found)
    costs, times = [p.cost for p in found], [p.seconds for p in found]
    rising = deadline is not None
    assert costs == sorted(costs, reverse=not rising)
    assert times == sorted(times, reverse=rising)


def test_equal_halves_are_equal() -> None:
    assert {p.on_demand - p.preemptible for p in half_and_half(plans())} == {0}
    assert all(p.preemptible for p in with_preemptible(plans()))


def test_an_unreachable_error_has_no_plan() -> None:
    assert plan_of(QUESTION._replace(error=0.04), ROUNDS, 8) is None


def test_rounds_without_anybody_take_time() -> None:
    offer = Offer(0.3, 1e9, 1e9)
    plan = plan_of(QUESTION._replace(error=0.5), ROUNDS, 0, (Group(offer, 1),))
    assert plan is not None
    # Half of the rounds are idle: each version takes a task and one deadline.
    assert plan.seconds == pytest.approx(plan.versions * (1.0 + 1.05), rel=1e-6)


def test_stays_have_the_share_of_their_means() -> None:
    rng = np.random.default_rng(0)
    stays = draw_stays(rng, 30.0, 10.0, 1e5)
    assert sum_paid_seconds(stays, 1e5) == pytest.approx(0.75e5, rel=0.03)
    assert all(end > begin for begin, end in stays)
    assert sum_paid_seconds([(0.0, 10.0), (20.0, 40.0)], 25.0) == 15.0


def test_a_worker_that_never_leaves_has_one_stay() -> None:
    rng = np.random.default_rng(0)
    assert draw_stays(rng, np.inf, 10.0, 50.0) == [(0.0, 50.0)]


def test_plans_are_values() -> None:
    plan = plans()[0]
    assert replace(plan, cost=plan.cost) == plan


def test_no_buffer_outside_of_the_pilots_is_planned() -> None:
    narrow = BUFFERED._replace(model=MODEL._replace(inverse_low=0.2, inverse_high=0.5))
    found = all_plans(QUESTION._replace(error=0.3), [narrow], [CHEAP], 8)
    assert {plan.buffer for plan in found} == {2, 4}


# ----------------------------------------------------------------------------- two bids

# In a market whose price changes every two minutes: at most 0.9 for nine tenths of the
# time, and at most 0.4 for three quarters.
DEAR = Offer(0.5, 1200.0, 400 / 3, bid=0.9)
LOW = Offer(0.3, 480.0, 160.0, bid=0.4)
EASY = QUESTION._replace(error=0.3)


def test_two_groups_with_one_bid_are_one_group() -> None:
    for way, buffer in ((ROUNDS, None), (BUFFERED, 4)):
        one = plan_of(EASY, way, 1, (Group(LOW, 5),), buffer)
        two = plan_of(EASY, way, 1, (Group(LOW, 3), Group(LOW, 2)), buffer)
        assert one is not None
        assert two is not None
        assert (two.versions, two.preemptible) == (one.versions, 5)
        for name in ("inverse", "seconds", "cost", "tasks", "worker_seconds"):
            assert getattr(two, name) == pytest.approx(getattr(one, name))


def test_the_cost_of_two_bids_lies_between_those_of_one() -> None:
    for way, buffer in ((ROUNDS, None), (BUFFERED, 4)):
        low, both, high = (
            plan_of(EASY, way, 0, groups, buffer)
            for groups in (
                (Group(LOW, 6),),
                (Group(DEAR, 3), Group(LOW, 3)),
                (Group(DEAR, 6),),
            )
        )
        assert low is not None
        assert both is not None
        assert high is not None
        assert (both.bid, both.is_plain, high.is_plain) == (0.9, False, True)
        assert low.seconds > both.seconds
        assert high.cost / high.seconds > both.cost / both.seconds
        assert both.cost / both.seconds > low.cost / low.seconds


def test_every_pair_of_bids_is_searched_with_every_split() -> None:
    offers = [LOW, DEAR, Offer(0.8, np.inf, 0.0, bid=3.0)]
    easy = EASY._replace(error=0.5)
    found = all_plans(easy, [ROUNDS], offers, 4)
    pairs = {
        tuple((group.offer.bid, group.workers) for group in plan.groups)
        for plan in found
        if len(plan.groups) == 2 and not plan.on_demand
    }
    assert pairs == {
        ((high, few), (low, workers - few))
        for low, high in ((0.4, 0.9), (0.4, 3.0), (0.9, 3.0))
        for workers in range(2, 5)
        for few in range(1, workers)
    }
    assert not any(plan.groups[1:] for plan in all_plans(easy, [ROUNDS], [CHEAP], 4))


def test_bids_that_are_not_of_one_market_are_refused() -> None:
    with pytest.raises(ConfigError, match="several bids in one market"):
        plan_of(EASY, ROUNDS, 0, (Group(DEAR, 2), Group(CHEAP, 2)))
    with pytest.raises(ConfigError, match="from 0 to 1"):
        plan_of(EASY, ROUNDS, 0, (Group(LOW, 2), Group(DEAR, 2)))


@given(st.floats(0.05, 1.0), st.integers(1, 8), st.integers(1, 8), st.floats(0.0, 1.0))
def test_the_formula_of_the_lower_bid_gives_the_inverse_back(
    share: float, few: int, more: int, part: float
) -> None:
    away = [1 - share, 1 - share * part]
    inverse = moments_of(distribution_of_bids(0, [few, more], away)).inverse
    found = lower_share(share, few, few + more, inverse)
    assert found == pytest.approx(share * part, abs=1e-9)


def test_stays_of_a_lower_bid_lie_within_those_of_a_higher_one() -> None:
    rng = np.random.default_rng(0)
    high = draw_stays(rng, DEAR.up, DEAR.down, 2e6)
    low = draw_inner_stays(rng, high, *LOW.inside(DEAR))
    assert all(any(b <= begin and end <= e for b, e in high) for begin, end in low[:99])
    assert sum_paid_seconds(low, 2e6) == pytest.approx(1.5e6, rel=0.03)
    lengths = [end - begin for begin, end in low]
    assert np.mean(lengths) == pytest.approx(LOW.up, rel=0.1)
    assert LOW.inside(LOW._replace(up=np.inf, down=0.0)) == (LOW.up, LOW.down)


# ------------------------------------------------------------------------------- growth


def test_a_number_that_grows_is_that_of_the_formula() -> None:
    stages = Growth(2, 1.3).stages(9)
    numbers = [count for count, versions in stages for _ in range(versions)]
    assert numbers == [int(np.ceil(2 * 1.3**version)) for version in range(6)]
    assert np.ceil(2 * 1.3**6) >= 9


def test_a_number_that_never_grows_to_all_is_refused() -> None:
    assert Growth(3, 1.0).stages(3) == []
    with pytest.raises(ConfigError, match="never makes 4 workers of 3"):
        plan_of(QUESTION, ROUNDS, 4, growth=Growth(3, 1.0))


def test_workers_that_come_have_the_time_to_start() -> None:
    question, growth = QUESTION._replace(restart=0.5), Growth(1, 1.1)
    plan = plan_of(question, ROUNDS, 4, growth=growth)
    assert plan is not None
    second = plan.rented[1][0] + question.restart
    assert plan_of(question._replace(restart=second), ROUNDS, 4, growth=growth)
    late = question._replace(restart=1.01 * second)
    assert plan_of(late, ROUNDS, 4, growth=growth) is None


@pytest.mark.parametrize("first", [1, 3])
def test_without_growth_it_is_the_constant_plan_bit_for_bit(first: int) -> None:
    for on_demand, groups in ((first, ()), (0, (Group(CHEAP, first),))):
        constant = plan_of(QUESTION._replace(error=0.5), ROUNDS, on_demand, groups)
        assert constant is not None
        for growth in (Growth(first, 1.0), Growth(first, 1.5)):
            assert constant == plan_of(
                QUESTION._replace(error=0.5), ROUNDS, on_demand, groups, growth=growth
            )


def test_a_plan_that_grows_adds_up_its_stages() -> None:
    question, growth = QUESTION._replace(restart=0.5), Growth(1, 1.1)
    plan = plan_of(question, ROUNDS, 4, growth=growth)
    constant = plan_of(question, ROUNDS, 4)
    assert plan is not None
    assert constant is not None
    assert (plan.growth, plan.is_plain, plan.workers) == (growth, False, 4)
    made = [min(4, int(np.ceil(1.1**j))) for j in range(plan.versions)]
    model = MODEL
    for count in made:
        error, model = model.error(1, 1 / count), model.after(1, 1 / count)
    assert plan.error == pytest.approx(error)
    assert plan.error <= question.error
    # Rounds of a second, and half a task for each of the three that come.
    assert plan.seconds == pytest.approx(len(made) + 1.5)
    needed = [made.index(count) + (count - 2) * 0.5 for count in (2, 3, 4)]
    begins = [0.0, *(at - 0.5 for at in needed)]
    assert [begin for begin, _ in plan.rented] == pytest.approx(begins)
    assert [count for _, count in plan.rented] == [1, 2, 3, 4]
    paid = sum(plan.seconds - begin for begin in begins)
    assert plan.worker_seconds == pytest.approx(paid)
    assert plan.cost == pytest.approx(paid / 3600)
    assert plan.versions >= constant.versions


def test_a_number_that_grows_may_be_cheaper_than_any_constant_one() -> None:
    found = all_plans(QUESTION, [ROUNDS], [CHEAP], 8)
    best, constant = cheapest(found, QUESTION), cheapest(plain(found), QUESTION)
    assert best is not None
    assert constant is not None
    assert best.growth is not None
    assert best.cost < 0.97 * constant.cost
    assert constant.is_plain


def test_a_plan_that_is_done_before_all_have_come_is_another_one() -> None:
    slow = Growth(1, 1.001)
    assert plan_of(QUESTION._replace(error=0.5), ROUNDS, 8, growth=slow) is None


def test_those_on_demand_come_first() -> None:
    plan = plan_of(QUESTION, ROUNDS, 2, (Group(CHEAP, 3),), growth=Growth(1, 1.2))
    assert plan is not None
    assert [count for _, count in plan.rented] == [1, 2, 3, 4, 5]
    assert plan.cost > plan.worker_seconds / 3600 * CHEAP.price


# ----------------------------------------------------------------------------- restarts


@given(st.floats(0.0, 2000.0), st.floats(100.0, 1e4))
def test_a_restart_lengthens_a_plan_by_the_stays_that_it_fills(
    restart: float, up: float
) -> None:
    groups = (Group(Offer(0.3, up, 300.0), 4),)
    usual = plan_of(EASY, BUFFERED, 0, groups, 4)
    slow = plan_of(EASY._replace(restart=restart), BUFFERED, 0, groups, 4)
    assert usual is not None
    assert slow is not None
    assert slow.seconds == pytest.approx(usual.seconds * np.exp(restart / up))
    assert slow.cost / slow.seconds == pytest.approx(usual.cost / usual.seconds)


def test_workers_are_ready_a_restart_after_they_came() -> None:
    stays = [(0.0, 10.0), (20.0, 24.0), (30.0, 40.0)]
    assert ready_stays(stays, 0.0) == stays
    assert ready_stays(stays, 5.0) == [(0.0, 10.0), (35.0, 40.0)]
    assert cut_before(stays, 0.0) == stays
    assert cut_before(stays, 22.0) == [(22.0, 24.0), (30.0, 40.0)]


def test_restarts_count_in_what_preemptible_workers_could_save() -> None:
    question = QUESTION._replace(error=0.5, restart=900.0)
    alone = plan_of(question, ROUNDS, 1)
    assert alone is not None
    offer = Offer(0.25, 900.0, 9.0)
    task = np.exp(-1 / 900)
    assert most_saved(alone, [offer]) == pytest.approx(1 - 0.25 * np.e / task)


def test_rounds_wait_for_workers_that_come() -> None:
    long = ROUNDS._replace(task_seconds=[1.0, 5.0])
    groups = (Group(CHEAP, 2),)
    easy = QUESTION._replace(error=0.5)
    usual = plan_of(easy, ROUNDS, 0, groups)
    slow = plan_of(easy._replace(restart=1.0), ROUNDS, 0, groups)
    wide = plan_of(easy._replace(restart=1.0), long, 0, groups)
    alone = plan_of(easy, ROUNDS, 2)
    found = [p.round_deadline for p in (usual, slow, wide, alone) if p is not None]
    assert found == [1.05, 2.0, 6.0, None]
