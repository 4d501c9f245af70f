"""The search for the cheapest plan, in the planner's own model."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.planning.error_model import ErrorModel
from fedcore.planning.preemption import draw_stays, sum_paid_seconds
from fedcore.planning.volatile_workers import (
    Group,
    Growth,
    Offer,
    Plan,
    Question,
    Way,
    all_plans,
    cheapest,
    frontier,
    half_and_half,
    most_saved,
    on_demand_only,
    plan_of,
    with_preemptible,
)

MODEL = ErrorModel(0.05, 0.6, 0.9, 0.4, 1.0, 0.1, 1.0, 100)
ROUNDS = Way("synchronous", None, MODEL, MODEL, [1.0])
BUFFERED = Way("buffered", None, MODEL, MODEL, [1.0])
CHEAP = Offer(0.3, 900.0, 300.0)
QUESTION = Question(0.2, 1.0, deadline=600.0)


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
