"""Who evaluates which version, and which measurements are taken for true."""

import pytest

from fedcore.coordinator.answers import MOST_ASKED
from fedcore.coordinator.events import (
    Evaluated,
    Evicted,
    Failed,
    Skipped,
    StopRequested,
)
from fedcore.coordinator.settings import EvaluateConfig, StopConfig
from fedcore.protocol import MOST_COUNTED
from fedcore.recipes import FedBuff
from tests.fedcore.coordinator.desk import Desk


def desk_of(every: int = 2, *, clients: bool = False, **stop: object) -> Desk:
    desk = Desk(
        FedBuff(buffer=1),
        StopConfig(**stop),
        EvaluateConfig(every_versions=every, clients=clients),
    )
    desk.enrol("a", "b")
    desk.enrol("judge", role="evaluator")
    return desk


@pytest.mark.parametrize("version", [-1, 3, 4, 2**63])
def test_a_version_that_was_never_made_cannot_be_measured(version: int) -> None:
    desk = desk_of(target={"accuracy": 0.5})
    for seq in (1, 2):
        desk.push("a", seq)
    desk.pull("judge")
    desk.measure("judge", version, accuracy=0.9)
    assert desk.actions == []
    assert desk.coordinator.state.evaluated is None
    desk.measure("judge", 2, accuracy=0.9)
    assert desk.finished == "target reached"


def test_the_newest_measured_version_stays_the_newest() -> None:
    desk = desk_of(every=1)
    desk.enrol("other", role="evaluator")
    desk.push("a", 1)
    desk.pull("judge")
    desk.push("a", 2)
    desk.pull("other")
    desk.push("a", 3)
    desk.pull("other")
    desk.measure("other", 3, accuracy=0.1)
    desk.measure("judge", 1, accuracy=0.1)
    assert desk.records(Evaluated)
    assert desk.coordinator.state.evaluated == 3


def test_a_trainer_that_measures_does_not_do_the_evaluators_work() -> None:
    desk = desk_of(clients=True)
    desk.pull("a")
    desk.measure("a", 0, accuracy=0.1)
    assert desk.records(Evaluated)
    assert desk.coordinator.state.evaluated is None
    desk.pull("judge")
    assert desk.given == ["judge"]


def test_nobody_measures_who_is_not_known() -> None:
    desk = desk_of()
    desk.measure("stranger", 0, accuracy=0.1)
    assert desk.actions == []


def test_what_is_not_finite_is_left_out() -> None:
    desk = desk_of()
    desk.pull("judge")
    nothing = {"loss": float("nan"), "worse": float("inf"), "accuracy": 0.5}
    desk.feed(Evaluated(at=0.0, cid="judge", version=0, values=nothing, samples=-3))
    (record,) = desk.records(Evaluated)
    assert (record.values, record.samples) == ({"accuracy": 0.5}, 0)


def test_an_ended_run_is_measured_and_does_not_end_again() -> None:
    desk = desk_of(target={"accuracy": 0.5})
    desk.feed(StopRequested(at=1.0, reason="over"))
    desk.pull("judge")
    desk.measure("judge", 0, accuracy=0.9)
    assert desk.records(Evaluated)
    assert desk.finished is None
    assert desk.coordinator.state.closed == "over"


def test_the_evaluator_gets_each_version_that_is_due_once() -> None:
    desk = desk_of(every=2)
    desk.pull("judge")
    assert desk.given == ["judge"]
    desk.measure("judge", 0, accuracy=0.1)
    assert desk.coordinator.state.evaluated == 0
    desk.pull("judge")
    assert desk.given == []
    desk.push("a", 1)
    assert "judge" not in desk.given
    desk.push("a", 2)
    assert "judge" in desk.given
    desk.push("a", 3)
    desk.push("a", 4)
    assert "judge" not in desk.answered  # it does not wait any more


def test_two_evaluators_that_wait_get_the_same_version() -> None:
    desk = desk_of(every=1)
    desk.enrol("other", role="evaluator")
    for name in ("judge", "other"):
        desk.pull(name)
        desk.measure(name, 0, accuracy=0.1)
        desk.pull(name)
    desk.push("a", 1)
    assert sorted(set(desk.given) - {"a"}) == ["judge", "other"]


def test_an_evaluator_that_waits_and_is_lost_gets_nothing() -> None:
    desk = desk_of(every=1)
    desk.pull("judge")
    desk.measure("judge", 0, accuracy=0.1)
    desk.pull("judge")
    desk.lose("judge")
    desk.push("a", 1)
    assert "judge" not in desk.answered


def test_a_version_that_was_measured_is_not_given_again_at_the_end() -> None:
    desk = desk_of(every=5)
    desk.push("a", 1)
    desk.pull("judge")
    desk.measure("judge", 1, accuracy=0.1)
    desk.feed(StopRequested(at=1.0, reason="over"))
    desk.pull("judge")
    assert desk.reply.done
    assert desk.reply.task is None


def test_the_last_version_is_measured_whatever_the_interval() -> None:
    desk = desk_of(every=5)
    desk.pull("judge")
    desk.measure("judge", 0, accuracy=0.1)
    desk.push("a", 1)
    desk.feed(StopRequested(at=1.0, reason="over"))
    desk.pull("judge")
    assert desk.reply.done
    assert desk.reply.task.kind == "evaluate"


def test_trainers_evaluate_on_the_side_at_the_same_interval() -> None:
    desk = desk_of(every=2, clients=True)
    asked = []
    for seq in range(1, 6):
        desk.pull("a")
        asked.append(desk.reply.task.evaluate)
        desk.push("a", seq)
    assert asked == [True, False, True, False, True]
    desk.pull("b")
    assert desk.reply.task.evaluate
    desk.pull("judge")
    assert not desk.reply.task.evaluate  # it does nothing else


def test_trainers_do_not_evaluate_unless_they_shall() -> None:
    desk = desk_of(every=1)
    desk.pull("a")
    assert desk.reply.task.kind == "train"
    assert not desk.reply.task.evaluate


# -------------------------------------------------------- what nobody has asked for


@pytest.mark.parametrize("name", ["judge", "a"])
def test_a_report_that_nobody_asked_for_leaves_no_record(name: str) -> None:
    desk = desk_of(clients=True, target={"accuracy": 0.5})
    desk.measure(name, 0, accuracy=0.9)
    assert desk.actions == []
    desk.pull(name)
    desk.push("b", 1)
    desk.measure(name, 1, accuracy=0.9)  # it was given version 0
    assert desk.actions == []
    desk.measure(name, 0, accuracy=0.1)
    assert desk.records(Evaluated)


@pytest.mark.parametrize("name", ["judge", "a"])
def test_a_version_is_reported_once_by_each_client(name: str) -> None:
    desk = desk_of(clients=True)
    desk.enrol("other", role="evaluator")
    for each in (name, "b", "other"):
        desk.pull(each)
    written = 0
    for _ in range(100):
        desk.measure(name, 0, accuracy=0.1)
        written += len(desk.records(Evaluated))
    assert written == 1
    desk.measure("b", 0, accuracy=0.1)
    assert desk.records(Evaluated)
    desk.measure("other", 0, accuracy=0.1)
    assert desk.records(Evaluated)


def test_a_trainer_that_is_not_to_evaluate_reports_nothing() -> None:
    desk = desk_of(every=2, clients=True)
    desk.pull("a")
    desk.measure("a", 0, accuracy=0.1)
    desk.push("a", 1)
    desk.pull("a")
    assert not desk.reply.task.evaluate
    desk.measure("a", 1, accuracy=0.1)
    assert desk.actions == []
    desk.push("a", 2)
    desk.feed(StopRequested(at=1.0, reason="over"))
    desk.pull("a")
    assert desk.reply.task.kind == "evaluate"
    desk.measure("a", 2, accuracy=0.1)
    assert desk.records(Evaluated)
    desk.pull("a")
    assert desk.reply.task is None


def test_a_late_report_of_an_older_version_counts() -> None:
    desk = desk_of(every=1, clients=True)
    for seq in (1, 2, 3):
        desk.pull("a")
        desk.push("a", seq)
    for version in (1, 0, 2):
        desk.measure("a", version, accuracy=0.1)
        assert desk.records(Evaluated)


def test_the_samples_of_a_report_are_capped_as_those_of_updates_are() -> None:
    desk = desk_of()
    desk.pull("judge")
    values = {"accuracy": 0.5}
    desk.feed(
        Evaluated(at=0.0, cid="judge", version=0, values=values, samples=2**64 - 1)
    )
    (record,) = desk.records(Evaluated)
    assert record.samples == MOST_COUNTED


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (Failed(at=0.0, cid="a", error="oh"), Failed),
        (Skipped(at=0.0, cid="a", count=1, why="no picture"), Skipped),
    ],
)
def test_trouble_is_told_once_for_each_task(event: object, kind: type) -> None:
    desk = desk_of()
    desk.feed(event)
    assert desk.actions == []  # it has no task
    for seq in (1, 2):
        desk.pull("a")
        written = 0
        for _ in range(100):
            desk.feed(event)
            written += len(desk.records(kind))
        assert written == 1
        desk.push("a", seq)
    desk.pull("a")
    desk.feed(Evicted(at=0.0, name="a"))
    desk.feed(event)
    assert desk.actions == []


def test_what_was_asked_survives_the_snapshot_of_a_simulation() -> None:
    desk, other = desk_of(clients=True), desk_of(clients=True)
    desk.pull("a")
    other.coordinator.evaluations.load(desk.coordinator.evaluations.dump())
    other.feed(Failed(at=0.0, cid="a", error="oh"))
    assert other.records(Failed)
    other.measure("a", 0, accuracy=0.1)
    assert other.records(Evaluated)
    other.measure("a", 0, accuracy=0.1)
    assert other.actions == []


def test_what_one_client_may_still_report_is_bounded() -> None:
    desk = desk_of(every=1, clients=True)
    for seq in range(1, 101):
        desk.pull("a")
        desk.push("a", seq)
    due = desk.coordinator.evaluations.dump()["due"]
    assert due == {"a": list(range(100 - MOST_ASKED, 100))}
