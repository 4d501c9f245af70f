"""SkewScout: how θ follows what is lost by exchanging less."""

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from fedcore.compressors import ErrorFeedback, TopK
from fedcore.controllers import Report, SkewScout
from fedcore.errors import WorkloadError
from fedcore.recipes import FedBuff
from fedcore.typing import State

SCOUT = SkewScout(every=1, levels=(1.0, 0.5, 0.2, 0.1, 0.05))


def climbed(
    rule: SkewScout, lost: Callable[[float], float], comparisons: int = 40
) -> list[float]:
    """The share of each task, where a share loses so much accuracy."""
    controller = rule.build()
    state, shares = controller.init(), []
    for _ in range(comparisons):
        share = controller.assign(state).density
        shares.append(share)
        assert controller.wants(state) == {"own"}
        state = seen(controller.observe, state, share, {"accuracy": 0.9})
        assert controller.wants(state) == {"public"}
        public = {"accuracy": 0.9 - lost(share)}
        state = controller.observe(state, Report(at=0, public=public))
    return shares


def seen(
    observe: Callable[[State, Report], State],
    state: State,
    message: float,
    own: dict[str, float] | None = None,
) -> State:
    return observe(state, Report(at=0, message=message, own=own))


def test_where_nothing_is_lost_the_cheapest_is_chosen() -> None:
    assert climbed(SCOUT, lambda share: 0.0)[:6] == [1.0, 0.5, 0.2, 0.1, 0.05, 0.05]
    assert {*climbed(SCOUT, lambda share: 0.04)[4:]} == {0.05}  # within σ


def test_where_much_is_lost_the_most_expensive_is_chosen() -> None:
    shares = climbed(SCOUT, lambda share: 0.05 + 0.3 * (1.2 - share))
    assert {*shares} == {1.0}


def test_in_between_it_stays_where_the_loss_begins_to_matter() -> None:
    shares = climbed(SCOUT, lambda share: 0.0 if share >= 0.2 else 0.2)
    assert shares[:5] == [1.0, 0.5, 0.2, 0.1, 0.2]
    assert shares[4:].count(0.2) > 30  # 0.1 is tried again every tenth time
    assert {*shares[4:]} == {0.2, 0.1}


def test_the_objective_is_the_papers() -> None:
    """50 max(0, .08 - .05) + 1 * .5 = 2.0, worked out by hand."""
    state = climbed_once(message=0.5, home=0.9, public=0.82)
    assert state.seen[0] == pytest.approx(2.0)
    assert climbed_once(message=0.5, home=0.9, public=0.86).seen[0] == 0.5


def climbed_once(message: float, home: float, public: float) -> State:
    controller = SCOUT.build()
    state = seen(controller.observe, controller.init(), message, {"accuracy": home})
    return controller.observe(state, Report(at=0, public={"accuracy": public}))


def test_models_are_compared_every_few_tasks() -> None:
    controller = SkewScout(every=3).build()
    state = controller.init()
    for expected in (set(), set(), {"own"}):
        assert controller.wants(state) == expected
        own = {"accuracy": 0.5} if expected else None
        state = seen(controller.observe, state, 0.1, own)
    assert controller.wants(state) == {"public"}


def test_a_metric_that_is_not_measured_is_named() -> None:
    controller = SkewScout(every=1, metric="f1").build()
    with pytest.raises(WorkloadError, match="compares 'f1', and the workload measures"):
        seen(controller.observe, controller.init(), 0.1, {"accuracy": 0.5})


def test_densities_need_a_memory() -> None:
    with pytest.raises(ValidationError, match="cannot send less and keep the rest"):
        FedBuff(controllers=(SkewScout(),))
    FedBuff(uplink=ErrorFeedback(inner=TopK()), controllers=(SkewScout(),))
    with pytest.raises(ValidationError, match="two or more different shares"):
        SkewScout(levels=(0.5, 0.5))
