"""The acts of an operator: what they do, what they leave alone, when they cannot be."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fedcore.coordinator.answers import describe_act, objection, record_of
from fedcore.coordinator.events import (
    Act,
    ClientEnrolled,
    Decided,
    Enrolled,
    Evicted,
    Failed,
    Freed,
    Leased,
    Paused,
    Readmitted,
    SnapshotOrdered,
    Stepped,
    StopRequested,
    TimerFired,
    Unpaused,
)
from fedcore.coordinator.members import Roster
from fedcore.coordinator.rounds import Rounds
from fedcore.coordinator.settings import EvaluateConfig, StopConfig
from fedcore.coordinator.state import ServerState
from fedcore.protocol import Answer, Verdict
from fedcore.recipes import FedAvg, FedBuff
from fedcore.staleness import Inverse
from tests.fedcore.coordinator.desk import Desk


def desk_of(*names: str, **config: Any) -> Desk:
    desk = Desk(FedBuff(**{"buffer": 2, **config}))
    desk.enrol(*names)
    return desk


def act(desk: Desk, kind: Any, **more: Any) -> None:
    desk.feed(kind(at=desk.at, by="root", **more))


# --------------------------------------------------------------------------- pausing


def test_who_asks_for_work_in_a_pause_waits_and_hears_why() -> None:
    desk = desk_of("a", "b")
    desk.at = 7.0
    act(desk, Paused, reason="new sensors")
    assert desk.records(Paused) == [Paused(at=7.0, by="root", reason="new sensors")]
    desk.pull("a")
    assert desk.answered == []
    desk.fire("hold")
    assert desk.reply.task is None
    assert desk.reply.reason == "the operator has paused the run: new sensors"
    desk.pull("b")
    act(desk, Unpaused)
    assert desk.given == ["b"]  # at once, without asking again
    assert desk.reply.reason == ""
    desk.pull("a")
    assert desk.given == ["a"]


def test_a_paused_run_takes_nothing_in_and_clients_keep_their_messages() -> None:
    desk = desk_of("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.push("a", 1)
    act(desk, Paused, reason="new sensors")
    desk.push("a", 1)  # has its verdict, which it may hear again
    assert desk.ack.answer is Verdict.ACCEPTED
    desk.push("b", 1)
    answer: Any = desk.ack.answer
    assert answer is Answer.RETRY
    assert desk.ack.reason == "the operator has paused the run: new sensors"
    assert desk.records(Decided) == []
    desk.pull("a")
    desk.pull("b")
    assert desk.given == []
    act(desk, Unpaused)
    desk.push("b", 1)
    assert desk.ack.answer is Verdict.ACCEPTED
    assert [record.version for record in desk.records(Stepped)] == [1]


def test_a_paused_run_that_ends_rejects_what_arrives() -> None:
    desk = desk_of("a")
    desk.pull("a")
    act(desk, Paused)
    desk.feed(StopRequested(at=1.0, reason="enough"))
    desk.push("a", 1)
    assert desk.ack.answer is Verdict.REJECTED_CLOSED


def paused_cohort() -> Desk:
    """A cohort of two with a deadline at 5 s, paused at 2 s; ``a`` has delivered."""
    desk = Desk(FedAvg(buffer=2, minimum=1, deadline=5.0))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.at = 2.0
    desk.push("a", 1)
    act(desk, Paused)
    return desk


def test_the_deadline_of_a_cohort_stands_still_in_a_pause() -> None:
    desk = paused_cohort()
    desk.fire("deadline")  # at 5 s: one update would be enough for a version
    assert (desk.actions, desk.version) == ([], 0)
    desk.at = 100.0
    act(desk, Unpaused)
    desk.push("b", 1)  # in time: of the five seconds three are left
    assert [record.count for record in desk.records(Stepped)] == [2]


def test_after_a_pause_a_deadline_passes_when_its_time_is_over() -> None:
    desk = paused_cohort()
    desk.at = 100.0
    act(desk, Unpaused)
    act(desk, Paused)
    desk.at = 200.0
    act(desk, Unpaused)
    early = [timer for timer, at in desk.timers.items() if at < 200.0]
    assert len(early) == 2
    for timer in early:  # both were on their way when the run went on
        assert desk.feed(TimerFired(at=200.0, timer=timer)) == []
        del desk.timers[timer]
    desk.fire("deadline")
    assert desk.at == 203.0
    [stepped] = desk.records(Stepped)
    assert (stepped.reason, stepped.count) == ("deadline", 1)


def test_a_cohort_that_is_complete_in_a_pause_makes_its_version_after_it() -> None:
    desk = paused_cohort()
    desk.lose("b")
    desk.at = 50.0
    assert desk.version == 0
    act(desk, Unpaused)
    [stepped] = desk.records(Stepped)
    assert (stepped.reason, stepped.count) == ("complete", 1)


def test_versions_are_evaluated_in_a_pause() -> None:
    desk = Desk(FedBuff(buffer=1), evaluate=EvaluateConfig(every_versions=1))
    desk.enrol("a")
    desk.enrol("judge", role="evaluator")
    desk.pull("a")
    act(desk, Paused)
    desk.push("a", 1)
    desk.pull("judge")
    assert desk.given == ["judge"]


def test_a_pause_outlasts_a_snapshot() -> None:
    desk = desk_of("a")
    act(desk, Paused, reason="so")
    again = desk_of()
    again.coordinator.state.load(*desk.coordinator.state.dump())
    again.pull("a")
    assert again.given == []
    act(again, Unpaused)
    assert again.given == ["a"]


def test_a_run_that_ends_in_a_pause_gives_all_the_last_model() -> None:
    desk = desk_of("a")
    act(desk, Paused)
    desk.pull("a")
    desk.feed(StopRequested(at=desk.at, reason="enough"))
    assert desk.reply.done
    assert desk.reply.reason == ""


# -------------------------------------------------------------------------- evictions


def test_an_evicted_client_is_refused_and_what_it_sent_stays() -> None:
    desk = desk_of("a", "b")
    desk.push("a", 1)
    before = desk.coordinator.state.buffer
    act(desk, Evicted, name="a", reason="broken")
    assert desk.records(Evicted) == [
        Evicted(at=0.0, by="root", reason="broken", name="a")
    ]
    assert desk.coordinator.state.buffer is before
    assert desk.coordinator.state.roster.trainers == 1
    desk.push("a", 1)  # it asks for its verdict again
    assert desk.ack.answer is Verdict.ACCEPTED
    desk.push("a", 2)
    answers = [action.ack.answer for action in desk.actions]  # type: ignore[union-attr]
    assert answers == [Answer.UNKNOWN]
    desk.pull("a")
    assert desk.refused == [Answer.UNKNOWN]
    desk.coordinator.evaluations.ask("a", 0)
    desk.feed(Failed(at=0.0, cid="a", error="x"))
    assert desk.records(Failed) == []
    desk.evaluate("a", 0, accuracy=1.0)
    assert desk.actions == []
    assert desk.coordinator.state.count == 1


def test_the_place_of_an_evicted_client_is_free() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.pull("a")
    desk.pull("b")
    assert desk.given == []
    act(desk, Evicted, name="a")
    assert desk.given == ["b"]


def test_an_evicted_client_that_waits_is_answered_at_once() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.pull("a")
    desk.pull("b")
    act(desk, Evicted, name="b")
    assert desk.refused == [Answer.UNKNOWN]


def test_an_evicted_client_comes_back_under_no_name_and_no_id() -> None:
    desk = Desk(FedBuff(buffer=2))
    ann = ClientEnrolled(at=0.0, cid="a", name="ann", owner="1" * 32)
    desk.feed(ann)
    act(desk, Evicted, name="ann")
    for again in (
        ann,
        replace(ann, name="other"),
        replace(ann, cid="fresh"),
        replace(ann, cid="fresh", certified=True),
    ):
        desk.feed(again)
        assert desk.refused == [Answer.UNKNOWN]
        # Of an enrolment, and not of a pull: else the client would enrol again at once.
        assert [action.nonce for action in desk.actions] == [0]  # type: ignore[union-attr]
    act(desk, Readmitted, name="ann")
    assert [r.name for r in desk.records(Readmitted)] == ["ann"]
    desk.feed(replace(ann, index=1, count=2))
    assert [r.cid for r in desk.records(Enrolled)] == ["a"]
    desk.push("a", 1)
    assert desk.ack.answer is Verdict.ACCEPTED


def test_a_freed_name_lets_another_client_in_and_not_the_evicted_one() -> None:
    desk = Desk(FedBuff(buffer=2))
    ann = ClientEnrolled(at=0.0, cid="a", name="ann", owner="1" * 32)
    desk.feed(ann)
    act(desk, Evicted, name="ann")
    desk.feed(Freed(at=0.0, name="ann"))
    desk.feed(ann)
    assert desk.refused == [Answer.UNKNOWN]
    desk.feed(replace(ann, cid="b", owner="2" * 32))
    assert [r.cid for r in desk.records(Enrolled)] == ["b"]
    assert desk.coordinator.state.roster.trainers == 1


def test_after_a_name_is_freed_nothing_done_to_it_is_about_the_first_device() -> None:
    desk = Desk(FedBuff(buffer=2))
    first = ClientEnrolled(at=0.0, cid="a", name="ann", owner="1" * 32)
    second = replace(first, cid="b", owner="2" * 32)
    desk.feed(first)
    act(desk, Evicted, name="ann", reason="broken")
    desk.feed(Freed(at=0.0, name="ann"))
    act(desk, Readmitted, name="ann")
    assert desk.actions == []
    sentence = objection(Readmitted(at=0.0, name="ann"), desk.coordinator.state)
    assert sentence.startswith("'ann' is not evicted: the name was freed, and")
    desk.feed(second)
    act(desk, Evicted, name="ann", reason="by mistake")
    again = Desk(FedBuff(buffer=2))
    again.coordinator.state.load(*desk.coordinator.state.dump())
    for each in (desk, again):
        act(each, Readmitted, name="ann")
        assert len(each.records(Readmitted)) == 1
        each.feed(second)
        assert each.refused == []
        each.push("b", 1)
        assert each.ack.answer is Verdict.ACCEPTED
        for name in ("ann", "other"):
            each.feed(replace(first, name=name))
            assert each.refused == [Answer.UNKNOWN]
        each.push("a", 1)
        answers = [action.ack.answer for action in each.actions]  # type: ignore[union-attr]
        assert answers == [Answer.UNKNOWN]
        assert each.coordinator.state.clients["a"].evicted == "broken"


def test_a_name_that_nobody_owns_and_that_is_evicted_can_be_freed() -> None:
    desk = Desk(FedBuff(buffer=2))
    ann = ClientEnrolled(at=0.0, cid="a", name="ann", owner="1" * 32)
    desk.feed(ann)
    desk.feed(Freed(at=0.0, name="ann"))
    act(desk, Evicted, name="ann")
    desk.feed(Freed(at=0.0, name="ann"))
    desk.feed(replace(ann, cid="b", owner="2" * 32))
    assert [r.cid for r in desk.records(Enrolled)] == ["b"]


def test_an_eviction_outlasts_a_snapshot() -> None:
    desk = desk_of("a", "b")
    act(desk, Evicted, name="a", reason="so")
    again = desk_of()
    again.coordinator.state.load(*desk.coordinator.state.dump())
    assert again.coordinator.state.roster.trainers == 1
    again.pull("a")
    assert again.refused == [Answer.UNKNOWN]
    again.enrol("a")
    assert again.refused == [Answer.UNKNOWN]


# ------------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("before", "kind", "more", "sentence"),
    [
        ([Paused], Paused, {}, "the run is paused already: why"),
        ([], Unpaused, {}, "the run is not paused"),
        ([], Evicted, {"name": "eve"}, "no client has the name 'eve'"),
        ([Evicted], Evicted, {"name": "a"}, "'a' is evicted already: why"),
        ([], Readmitted, {"name": "a"}, "'a' is not evicted"),
        ([StopRequested], Paused, {}, "the run has ended: why"),
        ([StopRequested], Unpaused, {}, "the run has ended: why"),
        ([StopRequested], Evicted, {"name": "a"}, "the run has ended: why"),
    ],
)
def test_an_act_that_cannot_be_done_says_why_and_changes_nothing(
    before: list[Any], kind: Any, more: dict[str, str], sentence: str
) -> None:
    desk = desk_of("a")
    for earlier in before:
        name = {"name": "a"} if earlier is Evicted else {}
        desk.feed(earlier(at=0.0, reason="why", **name))
    event = kind(at=0.0, **more)
    assert objection(event, desk.coordinator.state) == sentence
    assert desk.feed(event) == []


def test_a_snapshot_is_noted_and_moves_nothing() -> None:
    desk = desk_of("a")
    act(desk, SnapshotOrdered, reason="before the update")
    [noted] = desk.records(SnapshotOrdered)
    assert (noted.version, noted.reason) == (0, "before the update")
    assert len(desk.actions) == 1


@pytest.mark.parametrize("kind", Act.__args__)
@pytest.mark.parametrize("reason", ["", "why"])
def test_the_record_of_an_act_leads_to_itself(kind: Any, reason: str) -> None:
    desk = desk_of("a")
    named = {"name": "a"} if "name" in kind.__dataclass_fields__ else {}
    record = record_of(
        kind(at=-1.0, by="root", reason=reason, **named), desk.coordinator.state
    )
    assert record.at == desk.coordinator.state.at
    assert record_of(record, desk.coordinator.state) == record
    assert describe_act(record).startswith("the operator (root) ")
    assert describe_act(record).endswith(": why") == bool(reason)


# ------------------------------------------------------------------------------- laws

NAMES = ("a", "b", "c")
Which = st.sampled_from(NAMES)


class Operated(RuleBasedStateMachine):
    """A federation in which an operator interferes at any moment.

    ``plain`` is another coordinator, which hears of the same accepted updates, and of
    no operator. Its model must be the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self.config = FedBuff(buffer=2, staleness=Inverse(), concurrency=2)
        self.desk, self.plain = Desk(self.config), Desk(self.config)
        self.desk.enrol(*NAMES)
        self.plain.enrol(*NAMES)
        self.seq = dict.fromkeys(NAMES, 0)
        self.out: set[str] = set()
        self.paused = False
        self.accepted = 0

    @rule(name=Which)
    def pull(self, name: str) -> None:
        self.desk.pull(name)
        self.check_tasks()

    @rule(name=Which, value=st.integers(-3, 3), late=st.integers(0, 2))
    def push(self, name: str, value: int, late: int) -> None:
        base = max(0, self.desk.version - late)
        sent = [float(value), 1.0, 0.0, 0.0]
        seq = self.seq[name] + 1
        self.desk.push(name, seq, sent, base=base)
        if name in self.out or self.paused:
            answer = Answer.UNKNOWN if name in self.out else Answer.RETRY
            assert self.desk.ack.answer is answer
            assert self.desk.records(Decided) == []
            return
        [decided] = self.desk.records(Decided)
        assert decided.verdict is Verdict.ACCEPTED
        self.seq[name] = seq
        self.accepted += 1
        self.check_tasks()
        self.plain.push(name, seq, sent, base=base)

    @rule(name=Which)
    def lose(self, name: str) -> None:
        self.desk.lose(name)
        self.check_tasks()

    @precondition(lambda self: self.desk.timers)
    @rule(kind=st.sampled_from(["hold", "lease"]))
    def fire(self, kind: str) -> None:
        if any(timer.kind == kind for timer in self.desk.timers):
            self.desk.fire(kind)
            self.check_tasks()

    @rule()
    def pause(self) -> None:
        self.desk.feed(Paused(at=self.desk.at))
        assert len(self.desk.records(Paused)) == (not self.paused)
        self.paused = True

    @rule()
    def resume(self) -> None:
        self.desk.feed(Unpaused(at=self.desk.at))
        assert len(self.desk.records(Unpaused)) == self.paused
        self.paused = False

    @rule(name=Which)
    def evict(self, name: str) -> None:
        self.desk.feed(Evicted(at=self.desk.at, name=name))
        assert len(self.desk.records(Evicted)) == (name not in self.out)
        self.out.add(name)
        self.check_tasks()

    @rule(name=Which)
    def readmit(self, name: str) -> None:
        self.desk.feed(Readmitted(at=self.desk.at, name=name))
        assert len(self.desk.records(Readmitted)) == (name in self.out)
        self.out.discard(name)

    @rule()
    def restart(self) -> None:
        """The process is killed, and another one begins with a snapshot."""
        before, timers = self.desk, self.desk.at
        self.desk = Desk(self.config)
        self.desk.at = timers
        self.desk.settled = before.settled
        self.desk.coordinator.state.load(*before.coordinator.state.dump())

    def check_tasks(self) -> None:
        leased = [r.cid for r in self.desk.records(Leased)]
        assert not (leased and self.paused)
        assert not self.out & set(leased)

    @invariant()
    def holds(self) -> None:
        state, plain = self.desk.coordinator.state, self.plain.coordinator.state
        self.desk.coordinator.rounds.leases.validate()
        assert state.is_paused == self.paused
        assert set(state.roster.evicted) == self.out
        assert state.roster.trainers == len(NAMES) - len(self.out)
        assert state.applied + state.count == self.accepted
        assert state.version == plain.version
        assert np.array_equal(state.exact_D, plain.exact_D)


LAWS = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_no_act_of_an_operator_loses_or_doubles_an_update() -> None:
    run_state_machine_as_test(Operated, settings=LAWS)


@pytest.mark.parametrize("mistake", ["tasks", "evicted", "snapshot", "buffer"])
def test_the_laws_see_an_act_that_goes_wrong(mistake: str) -> None:
    """Negative controls."""

    def ignored(self: ServerState) -> bool:
        return False

    def forgetful(self: ServerState, *args: Any) -> None:
        load(self, *args)
        self.paused = None

    def careless(self: ServerState, record: Any) -> None:
        note(self, record)
        if isinstance(record, Paused) and self.count:
            self.count, self.samples = 0, 0.0
            self.buffer = self._next_buffer()

    def lenient(self: Roster, name: str, reason: str | None) -> None:
        return None

    load, note = ServerState.load, ServerState.note
    wrong = {
        "tasks": patch.object(Rounds, "grant", _granted_in_a_pause(Rounds.grant)),
        "evicted": patch.object(Roster, "_evict", lenient),
        "snapshot": patch.object(ServerState, "load", forgetful),
        "buffer": patch.object(ServerState, "note", careless),
    }[mistake]
    with wrong, pytest.raises(AssertionError):
        run_state_machine_as_test(Operated, settings=LAWS)


def _granted_in_a_pause(grant: Any) -> Any:
    def granted(self: Rounds, at: float) -> Any:
        paused, self.state.paused = self.state.paused, None
        try:
            return grant(self, at)
        finally:
            self.state.paused = paused

    return granted


def test_a_run_with_a_target_may_end_in_a_pause() -> None:
    desk = Desk(
        FedBuff(buffer=1),
        StopConfig(target={"accuracy": 0.5}),
        EvaluateConfig(every_versions=1),
    )
    desk.enrol("judge", role="evaluator")
    act(desk, Paused)
    desk.evaluate("judge", 0, accuracy=0.9)
    assert desk.finished == "target reached"
