"""Timers that come late: for another round, after a step, after the end."""

import pytest

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator.actions import SetTimer
from fedcore.coordinator.events import (
    Closed,
    HistoryForked,
    StateRolledBack,
    Stepped,
    StopRequested,
    Timer,
    TimerFired,
)
from fedcore.coordinator.rounds import Deadline
from fedcore.coordinator.settings import StopConfig
from fedcore.recipes import FedAvg, FedBuff
from tests.fedcore.coordinator.desk import FRESH, Desk


def desk_of(
    config: AlgorithmConfig, *names: str, stop: StopConfig | None = None
) -> Desk:
    desk = Desk(config, stop)
    desk.enrol(*names)
    for name in names:
        desk.pull(name)
    return desk


def timer(desk: Desk, kind: str, subject: str | None = None) -> Timer:
    """The newest timer of a kind that was set."""
    return [t for t in desk.timers if t.kind == kind and subject in (None, t.subject)][
        -1
    ]


def fire(desk: Desk, late: Timer) -> None:
    desk.feed(TimerFired(at=desk.at, timer=late))


def rounds(deadline: float = 5.0, **more: object) -> FedAvg:
    return FedAvg(buffer=2, minimum=1, deadline=deadline, **more)


# ----------------------------------------------------------------------- deadlines


def test_a_deadline_makes_one_version_and_never_a_second() -> None:
    desk = desk_of(rounds(), "a", "b")
    desk.push("a", 1)
    first = timer(desk, "deadline")
    fire(desk, first)
    assert desk.records(Stepped)[0].reason == "deadline"
    desk.pull("a")
    desk.push("a", 2)
    fire(desk, first)
    assert desk.actions == []
    assert desk.version == 1


def test_the_deadline_of_a_full_buffer_comes_too_late() -> None:
    desk = desk_of(rounds(), "a", "b")
    first = timer(desk, "deadline")
    desk.push("a", 1)
    desk.push("b", 1)
    assert desk.version == 1
    desk.pull("a")
    desk.push("a", 2)
    assert desk.coordinator.rounds.is_void(first)
    fire(desk, first)
    assert (desk.actions, desk.version) == ([], 1)


def test_after_a_step_the_next_cohort_has_a_deadline_of_its_own() -> None:
    desk = desk_of(rounds(), "a", "b")
    desk.at = 3.0
    desk.push("a", 1)
    desk.push("b", 1)
    desk.pull("a")
    second = timer(desk, "deadline")
    assert desk.timers[second] == 8.0
    assert second == Timer("deadline", "0", 1)  # its first attempt
    assert not desk.coordinator.rounds.is_void(second)
    desk.push("a", 2)
    fire(desk, second)
    assert desk.version == 2


def test_a_cohort_has_one_deadline_from_its_first_task_on() -> None:
    desk = Desk(rounds())
    desk.enrol("a", "b")
    desk.at = 1.0
    desk.pull("a")
    desk.at = 3.0
    desk.pull("b")
    assert desk.given == ["b"]
    assert [at for t, at in desk.timers.items() if t.kind == "deadline"] == [6.0]


def test_the_deadline_of_an_earlier_attempt_does_nothing() -> None:
    desk = desk_of(rounds(), "a", "b")
    first = timer(desk, "deadline")
    fire(desk, first)  # nobody has delivered: another cohort
    desk.pull("a")
    second = timer(desk, "deadline")
    assert second != first
    desk.push("a", 1)
    fire(desk, first)
    assert (desk.actions, desk.version) == ([], 0)
    fire(desk, second)
    assert desk.version == 1


def test_a_cohort_that_melts_away_has_one_deadline_at_a_time() -> None:
    desk = desk_of(rounds(), "a", "b")
    desk.at = 5.0
    fire(desk, timer(desk, "deadline"))
    set_now = [a for a in desk.actions if isinstance(a, SetTimer)]
    assert [(s.timer.kind, s.at) for s in set_now if s.timer.kind == "deadline"] == [
        ("deadline", 10.0)
    ]
    desk.pull("a")
    desk.pull("b")
    later = [t for t in desk.timers if t.kind == "deadline"]
    assert len(later) == 2


def test_after_the_end_no_deadline_makes_a_version() -> None:
    desk = desk_of(rounds(), "a", "b")
    desk.push("a", 1)
    last = timer(desk, "deadline")
    desk.feed(StopRequested(at=1.0, reason="over"))
    assert desk.version == 1
    fire(desk, last)
    assert desk.actions == []
    assert desk.version == 1


def test_a_deadline_that_was_not_void_does_nothing_after_the_end() -> None:
    """The end came without a step: the buffer was empty."""
    desk = desk_of(rounds(), "a", "b")
    last = timer(desk, "deadline")
    desk.feed(StopRequested(at=1.0, reason="over"))
    assert desk.version == 0
    fire(desk, last)
    assert desk.actions == []
    assert desk.given == []


def test_the_deadline_of_a_process_before_does_nothing() -> None:
    before = desk_of(rounds(), "a", "b")
    late = timer(before, "deadline")
    desk = Desk(rounds())
    desk.enrol("a", "b")
    desk.coordinator.state.load(*before.coordinator.state.dump())
    desk.push("a", 1)
    fire(desk, late)
    assert (desk.actions, desk.version) == ([], 0)


def test_a_step_at_the_deadline_may_end_the_run() -> None:
    desk = desk_of(rounds(), "a", "b", stop=StopConfig(versions=1))
    desk.push("a", 1)
    fire(desk, timer(desk, "deadline"))
    assert desk.finished == "1 versions"
    assert desk.records(Closed)


@pytest.mark.parametrize(("minimum", "steps"), [(1, True), (2, True), (3, False)])
def test_at_the_deadline_as_many_as_the_minimum_make_a_version(
    minimum: int, steps: bool
) -> None:
    config = FedAvg(buffer=4, minimum=minimum, deadline=5.0)
    desk = desk_of(config, "a", "b", "c", "d")
    desk.push("a", 1)
    desk.push("b", 1)
    fire(desk, timer(desk, "deadline"))
    assert bool(desk.records(Stepped)) is steps
    assert desk.version == steps
    assert desk.coordinator.state.count == (0 if steps else 2)


# -------------------------------------------------------------------------- leases


def test_an_old_lease_does_not_end_a_newer_one() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b")
    first = timer(desk, "lease", "a")
    desk.push("a", 1)  # b has the place now
    second = timer(desk, "lease", "b")
    desk.push("b", 1)
    desk.pull("a")
    third = timer(desk, "lease", "a")
    assert len({first.number, second.number, third.number}) == 3
    desk.pull("b")
    assert desk.given == []
    for old in (first, second):
        fire(desk, old)
        assert desk.given == []
    fire(desk, third)
    assert desk.given == ["b"]


def test_a_lease_ends_once() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b", "c")
    only = timer(desk, "lease", "a")
    fire(desk, only)
    assert desk.given == ["b"]
    fire(desk, only)
    assert desk.given == []  # a second place would be one too many


def test_the_lease_of_a_client_that_is_lost_ends_nothing_more() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b", "c")
    only = timer(desk, "lease", "a")
    desk.lose("a")
    assert desk.given == ["b"]
    fire(desk, only)
    assert desk.given == []


def test_leases_of_a_cohort_before_end_nothing_in_this_one() -> None:
    desk = desk_of(rounds(), "a", "b")
    old = [timer(desk, "lease", name) for name in "ab"]
    desk.push("a", 1)
    fire(desk, timer(desk, "deadline"))
    desk.pull("a")
    assert desk.given == ["a"]
    desk.enrol("c")
    for late in old:
        fire(desk, late)
        assert desk.given == []
    assert desk.coordinator.rounds.leases.busy["a"] is not None


def test_a_lease_ends_when_the_config_says() -> None:
    desk = desk_of(FedBuff(buffer=9), "a")
    lease = timer(desk, "lease", "a")
    assert not desk.coordinator.rounds.is_void(lease)
    assert desk.timers[lease] == desk.coordinator.timeouts.lease


def test_a_void_timer_changes_nothing() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b", "c")
    desk.pull("c")
    desk.push("a", 1)
    desk.pull("a")
    coordinator = desk.coordinator
    void = [each for each in desk.timers if coordinator.is_void(each)]
    held = [each for each in desk.timers if each not in void]
    assert {(each.kind, each.subject) for each in void} == {
        ("hold", "b"),  # it has its task
        ("hold", "c"),  # it has asked again
        ("lease", "a"),  # it waits for its next task
    }
    assert {(each.kind, each.subject) for each in held} == {
        ("hold", "a"),
        ("hold", "c"),
        ("lease", "b"),
    }
    before = str((coordinator.state.dump(), coordinator.rounds.dump()))
    for each in void:
        fire(desk, each)
        assert desk.actions == []
    assert str((coordinator.state.dump(), coordinator.rounds.dump())) == before


def test_the_end_of_the_newest_lease_is_not_past_while_it_is_void() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b")
    lease = timer(desk, "lease", "a")
    desk.push("a", 1)
    desk.pull("a")
    coordinator = desk.coordinator
    assert coordinator.is_void(lease)
    assert not coordinator.is_past(lease)
    fire(desk, timer(desk, "hold", "a"))
    assert not coordinator.is_void(lease)  # it has come, and has not asked again
    desk.push("b", 1)
    desk.pull("a")
    assert timer(desk, "lease", "a") != lease
    assert coordinator.is_past(lease)


# --------------------------------------------------------------------------- holds


def test_the_hold_of_an_earlier_pull_answers_no_newer_one() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b")
    old = timer(desk, "hold", "b")
    desk.pull("b")
    fire(desk, old)
    assert desk.actions == []
    assert "b" in desk.coordinator.rounds.leases.waiting
    fire(desk, timer(desk, "hold", "b"))
    assert desk.answered == ["b"]


def test_a_pull_is_answered_once() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b")
    hold = timer(desk, "hold", "b")
    fire(desk, hold)
    assert desk.answered == ["b"]
    fire(desk, hold)
    assert desk.actions == []


def test_who_was_answered_after_a_while_gets_no_task_behind_its_back() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b")
    fire(desk, timer(desk, "hold", "b"))
    desk.push("a", 1)
    assert desk.given == []


def test_an_evaluator_is_held_no_longer_either() -> None:
    desk = Desk(FedBuff(buffer=1))
    desk.enrol("judge", role="evaluator")
    desk.pull("judge")  # measures version 0
    desk.measure("judge", 0, accuracy=0.1)
    desk.pull("judge")
    hold = timer(desk, "hold", "judge")
    fire(desk, hold)
    assert desk.answered == ["judge"]
    assert desk.given == []
    assert desk.coordinator.evaluations.waiting == {}
    fire(desk, hold)
    assert desk.actions == []


def test_nobody_is_held_once_a_new_history_began() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b")
    desk.enrol("judge", role="evaluator")
    desk.pull("judge")
    desk.measure("judge", 0, accuracy=0.1)
    desk.pull("judge")
    holds = [t for t in desk.timers if t.kind == "hold"]
    desk.feed(StateRolledBack(at=1.0, fresh_epoch=FRESH, reason="restored"))
    assert desk.records(HistoryForked)
    assert sorted(desk.answered) == ["b", "judge"]
    assert desk.given == []
    for late in holds:
        fire(desk, late)
        assert desk.actions == []
    desk.push("a", 1)  # of the old history
    assert desk.given == []


def test_after_the_end_nobody_is_held() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b")
    hold = timer(desk, "hold", "b")
    desk.feed(StopRequested(at=1.0, reason="over"))
    assert desk.answered == ["b"]
    fire(desk, hold)
    assert desk.actions == []


# ----------------------------------------------------------------------------- end


def test_the_end_comes_not_before_its_time_and_once() -> None:
    desk = Desk(FedBuff(), StopConfig(seconds=30.0))
    stop = timer(desk, "stop")
    assert desk.timers[stop] == 30.0
    desk.at = 29.0
    fire(desk, stop)
    assert desk.actions == []
    desk.at = 30.0
    fire(desk, stop)
    assert desk.finished == "30 seconds"
    fire(desk, stop)
    assert desk.actions == []


def test_a_lease_that_ends_after_the_end_gives_nobody_a_task() -> None:
    desk = desk_of(FedBuff(buffer=9, concurrency=1), "a", "b")
    lease = timer(desk, "lease", "a")
    desk.feed(StopRequested(at=1.0, reason="over"))
    fire(desk, lease)
    assert desk.actions == []


# -------------------------------------------------------------- a deadline by itself


def deadline_at(at: float) -> tuple[Deadline, Timer]:
    deadline, begun = Deadline(), Timer("deadline", "0", 3)
    deadline.begin(begun, at)
    return deadline, begun


def test_only_the_timer_of_this_deadline_is_due() -> None:
    deadline, begun = deadline_at(5.0)
    assert deadline.is_due(begun)
    assert not deadline.is_due(begun._replace(number=4))
    assert not deadline.is_due(begun._replace(number=2))


def test_a_deadline_that_no_pause_stopped_goes_on_as_it_is() -> None:
    deadline, begun = deadline_at(5.0)
    assert deadline.go_on(2.0) == []
    assert deadline.is_due(begun)


def test_a_deadline_that_was_over_at_the_pause_is_over_when_it_ends() -> None:
    deadline, _ = deadline_at(5.0)
    deadline.stop(7.0)
    (again,) = deadline.go_on(100.0)
    assert isinstance(again, SetTimer)
    assert again.at == 100.0


def test_a_look_whether_a_cohort_is_over_survives_the_snapshot_of_a_simulation() -> (
    None
):
    desk = desk_of(FedAvg(buffer=4, minimum=1), "a", "b")
    desk.push("a", 1)
    desk.push("b", 1)
    look = timer(desk, "complete")
    fresh = Desk(FedAvg(buffer=4, minimum=1))
    actions = fresh.coordinator.rounds.load(desk.coordinator.rounds.dump())
    assert SetTimer(timer=look, at=desk.timers[look]) in actions
