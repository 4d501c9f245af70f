"""Who comes and goes, what is written down of it, and which numbers are believed."""

from dataclasses import replace

import numpy as np
import pytest

from fedcore.coordinator.actions import Refuse, SetTimer
from fedcore.coordinator.events import (
    ClientEnrolled,
    Decided,
    Departed,
    Enrolled,
    Evicted,
    Failed,
    Freed,
    Lost,
    Readmitted,
    Stepped,
    Timer,
)
from fedcore.coordinator.settings import EvaluateConfig, StopConfig, TimeoutsConfig
from fedcore.protocol import Answer, Verdict
from fedcore.recipes import FedAvg, FedBuff
from fedcore.server_optimizers import Momentum
from fedcore.staleness import AdaSGD, LabelBoost
from fedcore.update_filters import FleetController
from tests.fedcore.coordinator.desk import SPEC, Desk
from tests.protocol.photo import photo


def test_seconds_go_on_counting_over_a_restart() -> None:
    desk = Desk(FedBuff(buffer=2), StopConfig(seconds=30.0))
    desk.actions = desk.coordinator.begin(12.0)
    (timer,) = (a for a in desk.actions if isinstance(a, SetTimer))
    assert (timer.timer, timer.at) == (Timer("stop"), 30.0)
    desk.actions = desk.coordinator.begin(31.0)
    assert desk.finished == "30 seconds"


def test_time_never_goes_back() -> None:
    desk = Desk(FedBuff(buffer=1))
    desk.at = 9.0
    desk.enrol("a")
    desk.at = 5.0
    desk.push("a", 1)
    assert desk.records(Decided)[0].at == 9.0
    assert desk.coordinator.state.started == 0.0


def test_a_step_tells_what_it_was_made_of() -> None:
    desk = Desk(FedBuff(buffer=2, weigh_by="samples", samples_cap=10))
    desk.enrol("a", "b")
    desk.push("a", 1, samples=3)
    desk.push("b", 1, samples=99)
    (step,) = desk.records(Stepped)
    assert (step.version, step.reason, step.count, step.samples) == (1, "buffer", 2, 13)
    assert (step.payload, step.gap_norm) == (b"", 0.0)
    assert step.nbytes == desk.coordinator.state.published.model_bytes
    assert step.digest == desk.coordinator.state.published.digest


def test_fed_avg_weighs_by_all_samples_however_many() -> None:
    """McMahan et al., Algorithm 1: Σ n_i·Δ_i / Σ n_i."""
    desk = Desk(FedAvg(buffer=2, min_clients=2))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    few, many = 25, 46_251
    desk.push("a", 1, [1.0, 0.0, 0.0, 0.0], samples=few)
    desk.push("b", 1, [0.0, 1.0, 0.0, 0.0], samples=many)
    expected = -np.array([few, many, 0, 0]) / (few + many)
    found = desk.coordinator.state.exact_D
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6, abs=1e-7)
    assert {record.reason for record in desk.records(Decided)} == {""}


def test_a_cap_on_samples_says_when_it_bites() -> None:
    desk = Desk(FedBuff(buffer=9, weigh_by="samples", samples_cap=10))
    desk.enrol("a", "b")
    desk.push("a", 1, samples=10)
    assert desk.records(Decided)[0].reason == ""
    desk.push("b", 1, samples=11)
    reason = desk.records(Decided)[0].reason
    assert reason == "counts for 10 of its 11 samples (algorithm.samples_cap)"


def test_nothing_is_flushed_out_of_an_empty_buffer() -> None:
    desk = Desk(FedBuff(buffer=2))
    assert desk.coordinator.flush(1.0) == []
    assert desk.version == 0


# -------------------------------------------------------------------------- clients


def test_who_enrols_again_as_before_is_not_written_down_again() -> None:
    desk = Desk(FedBuff(buffer=2))
    desk.enrol("a")
    assert len(desk.records(Enrolled)) == 1
    desk.enrol("a")
    assert not desk.actions
    desk.enrol("a", role="evaluator")
    assert [record.role for record in desk.records(Enrolled)] == ["evaluator"]


def test_who_has_left_is_told_so_and_leaves_once() -> None:
    desk = Desk(FedBuff(buffer=2))
    desk.enrol("a")
    desk.feed(Departed(at=0.0, cid="a"))
    assert [record.cid for record in desk.records(Departed)] == ["a"]
    desk.feed(Departed(at=0.0, cid="a"))
    assert not desk.actions
    desk.feed(Departed(at=0.0, cid="nobody"))
    assert not desk.actions
    desk.enrol("a")
    assert desk.actions == [Refuse(cid="a", nonce=0, answer=Answer.OBSOLETE)]
    desk.pull("a", nonce=7)
    # The driver says when to ask again.
    told = Refuse(cid="a", nonce=7, answer=Answer.UNKNOWN, retry_after=0.0)
    assert desk.actions == [told]


@pytest.mark.parametrize("how", ["lost", "left", "failed"])
def test_the_place_of_a_client_that_is_gone_goes_to_another(how: str) -> None:
    desk = Desk(FedBuff(buffer=9, concurrency=1))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    if how == "lost":
        desk.lose("a")
        assert [record.cid for record in desk.records(Lost)] == ["a"]
    elif how == "left":
        desk.feed(Departed(at=0.0, cid="a"))
    else:
        desk.feed(Failed(at=0.0, cid="a", error="division by zero"))
        assert [record.error for record in desk.records(Failed)] == ["division by zero"]
    assert desk.given == ["b"]


@pytest.mark.parametrize("how", ["lost", "left"])
@pytest.mark.parametrize("role", ["trainer", "evaluator"])
def test_a_client_that_is_gone_is_given_nothing(how: str, role: str) -> None:
    desk = Desk(FedBuff(buffer=1, concurrency=1), evaluate=EvaluateConfig())
    desk.enrol("a")
    desk.enrol("b", role=role)  # type: ignore[arg-type]
    desk.pull("a")
    if role == "evaluator":
        desk.pull("b")
        desk.measure("b", 0, accuracy=0.1)
    desk.pull("b")
    if how == "lost":
        desk.lose("b")
        desk.lose("b")
        assert not desk.records(Lost)  # once is enough
    else:
        desk.feed(Departed(at=0.0, cid="b"))
    for seq in range(1, 8):
        desk.push("a", seq)
        assert "b" not in desk.given


def test_what_an_unknown_client_reports_is_nothing() -> None:
    desk = Desk(FedBuff(buffer=2))
    desk.feed(Failed(at=0.0, cid="nobody", error="x"))
    assert not desk.actions
    desk.measure("nobody", 0, accuracy=1.0)
    assert not desk.actions
    desk.lose("nobody")
    assert not desk.actions


# -------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("late", "verdict"),
    [(0, Verdict.ACCEPTED), (2, Verdict.ACCEPTED), (3, Verdict.REJECTED_STALE)],
)
def test_the_limit_of_staleness_is_the_last_that_counts(
    late: int, verdict: Verdict
) -> None:
    desk = Desk(FedBuff(buffer=1, staleness_limit=2))
    desk.enrol("a", "b")
    for seq in range(1, 5):
        desk.push("a", seq)
    desk.push("b", 1, base=4 - late)
    assert desk.ack.answer is verdict
    (record,) = desk.records(Decided)
    assert (record.staleness, record.base) == (late, 4 - late)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"samples": 1}, Verdict.ACCEPTED),
        ({"samples": 0}, Verdict.REJECTED_MALFORMED),
        ({"samples": 1 << 40}, Verdict.ACCEPTED),
        ({"samples": (1 << 40) + 1}, Verdict.REJECTED_MALFORMED),
        ({"counts": np.zeros(1 << 16, np.int64)}, Verdict.ACCEPTED),
        ({"counts": np.zeros((1 << 16) + 1, np.int64)}, Verdict.REJECTED_MALFORMED),
        ({"counts": np.array([1 << 40])}, Verdict.ACCEPTED),
        ({"counts": np.array([(1 << 40) + 1])}, Verdict.REJECTED_MALFORMED),
        ({"counts": np.array([0, -1])}, Verdict.REJECTED_MALFORMED),
        ({"base": -1}, Verdict.REJECTED_MALFORMED),
    ],
)
def test_numbers_of_a_header_are_believed_up_to_their_bounds(
    changes: dict[str, object], verdict: Verdict
) -> None:
    desk = Desk(FedBuff(buffer=9))
    desk.enrol("a")
    desk.push("a", 1, **changes)
    assert desk.ack.answer is verdict
    assert bool(desk.ack.reason) is (verdict is not Verdict.ACCEPTED)


def test_a_record_holds_what_the_client_said_where_it_is_a_number() -> None:
    desk = Desk(FedBuff(buffer=9))
    desk.enrol("a")
    nan = float("nan")
    desk.push("a", 1, samples=3, steps=4, loss=0.5, update_norm=2.0, memory_norm=1.0,
              counts=np.array([1, 2]))  # fmt: skip
    (told,) = desk.records(Decided)
    assert (told.samples, told.steps, told.loss) == (3, 4, 0.5)
    assert (told.update_norm, told.memory_norm) == (2.0, 1.0)
    assert told.counts is not None
    assert told.counts.tolist() == [1, 2]
    assert told.nbytes == len(told.payload) > 0
    desk.push("a", 2, loss=nan, update_norm=nan, memory_norm=float("inf"))
    (told,) = desk.records(Decided)
    assert (told.loss, told.update_norm, told.memory_norm) == (None, 0.0, 0.0)


def test_a_name_belongs_to_the_owner_that_took_it_first() -> None:
    desk = Desk(FedBuff(buffer=2))
    mine = ClientEnrolled(at=0.0, cid="a", name="ann", owner="1" * 32)
    desk.feed(mine)
    assert [record.owner for record in desk.records(Enrolled)] == ["1" * 32]
    theirs = replace(mine, cid="b", owner="2" * 32)
    desk.feed(theirs)
    (refusal,) = desk.actions
    assert refusal == Refuse(cid="b", nonce=0, answer=Answer.UNKNOWN)
    desk.feed(replace(mine, cid="c"))  # the owner itself, under a new id
    assert [record.cid for record in desk.records(Enrolled)] == ["c"]
    again = Desk(FedBuff(buffer=2))  # and so it is after a restart from a snapshot
    again.coordinator.state.load(*desk.coordinator.state.dump())
    again.feed(theirs)
    assert again.refused == [Answer.UNKNOWN]


def test_a_name_is_taken_by_who_has_it_beyond_doubt_or_once_it_is_free() -> None:
    desk = Desk(FedBuff(buffer=2))
    mine = ClientEnrolled(at=0.0, cid="a", name="ann", owner="1" * 32)
    theirs = replace(mine, cid="b", owner="2" * 32)
    desk.feed(mine)
    desk.feed(replace(theirs, certified=True))
    assert [record.cid for record in desk.records(Enrolled)] == ["b"]
    desk.feed(replace(mine, cid="c"))
    assert desk.refused == [Answer.UNKNOWN]
    desk.at = 3.0
    desk.feed(Freed(at=desk.at, name="ann"))
    assert desk.records(Freed) == [Freed(at=3.0, name="ann")]
    desk.feed(Freed(at=desk.at, name="ann"))
    assert desk.actions == []
    desk.feed(replace(mine, cid="c"))
    assert [record.cid for record in desk.records(Enrolled)] == ["c"]


def test_a_failure_of_an_evaluator_makes_it_nobody_who_trains() -> None:
    desk = Desk(FedBuff(buffer=2, min_clients=2))
    desk.enrol("a")
    desk.enrol("judge", role="evaluator")
    desk.pull("judge")
    desk.feed(Failed(at=0.0, cid="judge", error="no data"))
    assert [record.cid for record in desk.records(Failed)] == ["judge"]
    desk.pull("a")
    assert desk.given == []  # it is alone


def test_no_reply_says_that_the_run_has_ended_before_it_has() -> None:
    desk = Desk(FedBuff(buffer=1, concurrency=1), StopConfig(updates=1))
    desk.enrol("a", "b")
    desk.enrol("judge", role="evaluator")
    desk.pull("a")
    assert not desk.reply.done
    desk.pull("b")
    desk.fire("hold")
    assert not desk.reply.done
    desk.push("a", 1)
    assert desk.finished
    desk.pull("judge")
    assert desk.reply.done
    assert desk.reply.task.lease == TimeoutsConfig().lease


def test_a_role_that_stays_the_same_keeps_what_it_has_learnt() -> None:
    config = FedBuff(
        buffer=1,
        staleness=AdaSGD(),
        server=Momentum(lr=0.1),
        update_filter=FleetController(),
    )
    desk = Desk(config)
    desk.enrol("a")
    for seq in (1, 2, 3):
        desk.push("a", seq, counts=np.array([1, 2]))
    state = desk.coordinator.state
    learnt, velocity, seen = (
        state.learnt.staleness,
        state.optimizer,
        state.learnt.update_filter,
    )
    state.amend(config.build(SPEC))
    assert state.learnt.staleness is learnt
    assert state.optimizer is velocity
    assert state.learnt.update_filter is seen
    state.amend(FedBuff(buffer=1).build(SPEC))
    assert state.learnt.staleness is not learnt
    assert state.optimizer is not velocity
    assert state.learnt.update_filter is not seen


def test_policies_hear_of_an_accepted_update_all_that_they_weigh_by() -> None:
    config = FedBuff(buffer=9, staleness=LabelBoost(), update_filter=FleetController())
    desk = Desk(config)
    desk.enrol("a")
    counts = np.array([2, 1])
    desk.push("a", 1, samples=3, counts=counts)
    state, algorithm = desk.coordinator.state, config.build(SPEC)
    staleness, update_filter = algorithm.staleness, algorithm.update_filter
    heard = staleness.observe(staleness.init(), 0, counts, desk.ack.weight)
    assert photo(state.learnt.staleness) == photo(heard)
    heard = update_filter.observe(update_filter.init(), 3, counts)
    assert photo(state.learnt.update_filter) == photo(heard)


def test_another_part_of_the_data_is_written_down() -> None:
    desk = Desk(FedBuff(buffer=2))
    ann = ClientEnrolled(at=0.0, cid="a", name="ann", index=3, count=16, owner="o")
    told = []
    for event in (ann, ann, replace(ann, index=4)):
        desk.feed(event)
        told += [(record.index, record.count) for record in desk.records(Enrolled)]
    assert told == [(3, 16), (4, 16)]


def test_a_double_that_may_come_back_is_known_after_a_snapshot() -> None:
    desk = Desk(FedBuff(buffer=2))
    for name in ("ann", "bob"):
        desk.feed(ClientEnrolled(at=0.0, cid=name, name=name, count=2, owner=name))
    desk.feed(Evicted(at=0.0, name="bob"))
    again = Desk(FedBuff(buffer=2))
    again.coordinator.state.load(*desk.coordinator.state.dump())
    for each in (desk, again):
        assert each.coordinator.state.roster.doubles("ann") == []
        each.feed(Readmitted(at=0.0, name="bob"))
        assert each.coordinator.state.roster.doubles("ann") == ["bob"]


def test_doubles_are_still_known_after_a_snapshot() -> None:
    desk = Desk(FedBuff(buffer=2))
    for name in ("ann", "bob", "cid"):
        place = int(name == "cid")
        desk.feed(
            ClientEnrolled(
                at=0.0, cid=name, name=name, index=place, count=2, owner=name
            )
        )
    again = Desk(FedBuff(buffer=2))
    again.coordinator.state.load(*desk.coordinator.state.dump())
    for state in (desk.coordinator.state, again.coordinator.state):
        assert state.roster.doubles("ann") == ["bob"]
        assert state.roster.doubles("bob") == ["ann"]
        assert state.roster.doubles("cid") == state.roster.doubles("nobody") == []
    again.feed(Departed(at=1.0, cid="bob"))
    assert again.coordinator.state.roster.doubles("ann") == []


def test_a_client_that_comes_again_in_another_role_is_counted_once() -> None:
    desk = Desk(FedBuff(buffer=2))
    desk.enrol("a", "b")
    roster = desk.coordinator.state.roster
    desk.enrol("a", role="evaluator")
    assert (roster.trainers, roster.joined) == (1, 1)
    desk.enrol("a")
    assert (roster.trainers, roster.joined) == (2, 2)


def test_a_client_that_becomes_a_trainer_is_not_asked_to_evaluate_any_more() -> None:
    desk = Desk(FedBuff(buffer=1), evaluate=EvaluateConfig(every_versions=1))
    desk.enrol("b")
    desk.enrol("a", role="evaluator")
    desk.pull("a")
    desk.measure("a", 0, loss=1.0)
    desk.pull("a")  # nothing is due
    desk.enrol("a")
    desk.pull("a")
    assert desk.given == ["a"]
    desk.pull("b")
    desk.push("b", 1)
    assert (desk.version, desk.given) == (1, [])
