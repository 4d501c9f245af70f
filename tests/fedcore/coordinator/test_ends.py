"""How a run ends, and who measures it."""

import pytest

from fedcore.coordinator.events import Closed, Evaluated, RunResumed, Stepped
from fedcore.coordinator.settings import EvaluateConfig, StopConfig
from fedcore.protocol import Verdict
from fedcore.recipes import FedBuff
from tests.fedcore.coordinator.desk import Desk


def served(**settings: object) -> Desk:
    desk = Desk(
        FedBuff(buffer=2),
        StopConfig(**settings),
        EvaluateConfig(every_versions=2),
    )
    desk.enrol("a", "b")
    return desk


def test_the_run_ends_at_so_many_versions() -> None:
    desk = served(versions=1)
    desk.push("a", 1)
    desk.push("b", 1)
    assert desk.finished == "1 versions"
    assert desk.records(Closed)


def test_at_the_end_what_is_in_the_buffer_is_applied() -> None:
    desk = served(updates=3)
    for seq in (1, 2, 3):
        desk.push("a", seq)
    assert [record.reason for record in desk.records(Stepped)] == ["flush"]
    assert desk.coordinator.state.count == 0
    assert desk.coordinator.state.applied == 3


def test_the_run_ends_after_so_many_seconds() -> None:
    desk = served(seconds=30.0)
    desk.fire("stop")
    assert desk.finished == "30 seconds"


@pytest.mark.parametrize(
    ("target", "measured", "ends"),
    [
        ({"accuracy": 0.9}, {"accuracy": 0.91}, True),
        ({"accuracy": 0.9}, {"accuracy": 0.89}, False),
        ({"loss": 0.3}, {"loss": 0.29}, True),
        ({"loss": 0.3}, {"loss": 0.31}, False),
        ({"accuracy": 0.9, "loss": 0.3}, {"accuracy": 0.95, "loss": 0.5}, False),
    ],
)
def test_the_run_ends_when_the_evaluator_has_measured_the_target(
    target: dict[str, float], measured: dict[str, float], ends: bool
) -> None:
    desk = served(target=target)
    desk.enrol("judge", role="evaluator")
    desk.evaluate("judge", 0, **measured)
    assert (desk.finished is not None) is ends


def test_a_client_that_measures_does_not_end_the_run() -> None:
    desk = served(target={"accuracy": 0.9})
    desk.evaluate("a", 0, accuracy=1.0)
    assert desk.finished is None
    assert desk.records(Evaluated)


def test_after_the_end_pulls_are_answered_with_the_last_model() -> None:
    desk = served(updates=1)
    desk.push("a", 1)
    desk.pull("b")
    assert desk.reply.done
    assert desk.reply.patch.version == desk.version


def test_after_the_end_updates_are_rejected_and_their_mass_stays_away() -> None:
    desk = served(updates=1)
    desk.push("a", 1)
    desk.push("b", 1)
    assert (desk.ack.answer, desk.ack.weight) == (Verdict.REJECTED_CLOSED, 0.0)


def test_whoever_waits_is_told_that_the_run_has_ended() -> None:
    desk = Desk(FedBuff(buffer=1, concurrency=1), StopConfig(updates=1))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.push("a", 1)
    assert desk.answered == ["b"]


def test_an_evaluator_is_answered_before_those_who_train() -> None:
    desk = Desk(
        FedBuff(buffer=1, concurrency=1),
        StopConfig(updates=2),
        EvaluateConfig(every_versions=1),
    )
    desk.enrol("judge", role="evaluator")
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.pull("judge")
    desk.evaluate("judge", 0, loss=1.0)
    desk.pull("judge")
    desk.push("a", 1)
    assert desk.answered == ["judge", "b"]
    desk.evaluate("judge", 1, loss=1.0)
    desk.pull("a")
    desk.pull("judge")
    desk.push("b", 1)
    assert desk.finished
    assert desk.answered == ["judge", "a"]


def test_an_evaluator_gets_version_0_then_every_so_many_and_the_last() -> None:
    desk = served(versions=5)
    desk.enrol("judge", role="evaluator")
    measured = []
    for seq in range(1, 11):
        desk.pull("judge")
        while desk.given == ["judge"]:
            measured.append(desk.version)
            desk.evaluate("judge", desk.version, accuracy=0.1)
            desk.pull("judge")
        desk.push("a", seq)
        if desk.given == ["judge"]:
            measured.append(desk.version)
            desk.evaluate("judge", desk.version, accuracy=0.1)
    assert measured == [0, 2, 4, 5]


def test_what_a_lost_evaluator_did_not_measure_is_given_again() -> None:
    desk = served()
    desk.enrol("judge", role="evaluator")
    desk.pull("judge")
    assert desk.given == ["judge"]
    desk.pull("judge")
    assert desk.given == ["judge"]


def test_a_run_that_has_ended_says_so_at_its_next_start() -> None:
    desk = served(updates=1)
    desk.push("a", 1)
    desk.actions = desk.coordinator.begin(9.0)
    assert desk.finished == "1 updates"


def test_a_run_goes_on_if_its_end_was_moved_away() -> None:
    desk = served(updates=1)
    desk.push("a", 1)
    desk.coordinator.rounds.stop = StopConfig(updates=5)
    desk.actions = desk.coordinator.begin(9.0, resume=True)
    assert desk.records(RunResumed)
    desk.push("a", 2)
    assert desk.ack.answer is Verdict.ACCEPTED


def test_at_the_end_trainers_evaluate_the_last_version_where_clients_do() -> None:
    desk = Desk(FedBuff(buffer=2), StopConfig(updates=1), EvaluateConfig(clients=True))
    desk.enrol("a", "b")
    desk.push("a", 1)
    desk.pull("b")
    assert desk.reply.done
    assert desk.reply.task is not None
    assert desk.reply.task.kind == "evaluate"
    desk.evaluate("b", desk.version, accuracy=0.5)
    desk.pull("b")
    assert desk.reply.done
    assert desk.reply.task is None


def test_at_the_end_trainers_are_through_where_clients_do_not_evaluate() -> None:
    desk = served(updates=1)
    desk.push("a", 1)
    desk.pull("b")
    assert desk.reply.done
    assert desk.reply.task is None
