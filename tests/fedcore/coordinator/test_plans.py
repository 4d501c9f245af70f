"""Tasks that are refused before they are computed (FLeet, Middleware 2020, §2.4)."""

from typing import Any

import numpy as np
import pytest

from fedcore.clients import LocalSGD
from fedcore.controllers import AdaComm, IProf
from fedcore.coordinator.actions import Persist, Refuse, SendReply
from fedcore.coordinator.events import Declined, Leased
from fedcore.coordinator.state import Announced, Plans
from fedcore.protocol import Answer, Plan, Verdict
from fedcore.recipes import FedAvg, FedBuff, Fleet
from fedcore.typing import Counts
from fedcore.update_filters import FleetController
from tests.fedcore.coordinator.desk import Desk
from tests.protocol.photo import photo

SMALL = FleetController(size_percentile=50, ask_again=7.5)
ALIKE = FleetController(similarity_percentile=50)


def counts(*labels: int) -> Counts:
    return np.array(labels, np.int64)


@pytest.fixture
def desk() -> Desk:
    """Four tasks of 10 samples are known; ann and bob are there."""
    desk = Desk(FedBuff(buffer=99, concurrency=1, update_filter=SMALL))
    desk.enrol("a", "b", "eve")
    for seq in range(1, 5):
        desk.push("eve", seq, samples=10)
    return desk


def test_a_small_task_is_refused_before_it_is_computed(desk: Desk) -> None:
    actions = desk.pull("a", plan=Plan(9))
    [persist, refusal] = actions
    assert isinstance(persist, Persist)
    assert isinstance(refusal, Refuse)
    assert persist.record == Declined(
        at=0.0,
        cid="a",
        version=0,
        planned=9,
        counts=None,
        reason="9 samples, fewer than the percentile 10",
    )
    assert persist.record.durable
    assert (refusal.answer, refusal.retry_after) == (Answer.RETRY, 7.5)
    assert refusal.reason == persist.record.reason
    assert not desk.coordinator.rounds.leases.busy


def test_its_place_goes_to_another_client(desk: Desk) -> None:
    desk.pull("b", plan=Plan(10))
    assert desk.given == ["b"]
    desk.pull("a", plan=Plan(10))
    assert desk.given == []  # one may train at a time
    desk.pull("eve", plan=Plan(3))
    assert (desk.given, desk.refused) == ([], [])
    desk.lose("b")
    assert (desk.given, desk.refused) == (["a"], [])
    desk.push("a", 1)
    assert desk.refused == [Answer.RETRY]


def test_a_place_whose_task_is_refused_goes_to_the_next_one_at_once(desk: Desk) -> None:
    desk.enrol("c", "d", "z")
    desk.pull("b", plan=Plan(10))
    for name in ("c", "d"):
        desk.pull(name, plan=Plan(3))
    desk.pull("z", plan=Plan(10))
    desk.lose("b")
    assert desk.given == ["z"]
    assert set(desk.refused) == {Answer.RETRY}  # of who was drawn before


def test_a_client_is_told_the_share_of_work_that_is_left() -> None:
    controllers = [AdaComm(period=1.0, smooth=1)]
    desk = Desk(FedBuff(buffer=1, client=LocalSGD(steps=16), controllers=controllers))
    desk.enrol("a")
    told = []
    for seq in range(1, 6):
        desk.at = float(seq)
        desk.pull("a")
        told.append(desk.reply.task.work)
        desk.push("a", seq, loss=1.0)
    assert told[0] == 1.0
    assert told[-1] < 1.0


def test_a_cohort_is_filled_by_others() -> None:
    desk = Desk(FedAvg(buffer=2, min_clients=3, update_filter=SMALL))
    desk.enrol("a", "b", "c")
    for name in "abc":
        desk.pull(name, plan=Plan(10))
    first, second = desk.given  # c has to wait
    for name in (first, second):
        desk.push(name, 1, samples=10)
    desk.pull(first, plan=Plan(2))
    if not desk.refused:  # it was not drawn
        desk.pull(second, plan=Plan(2))
    assert desk.refused == [Answer.RETRY]
    desk.pull(second, plan=Plan(10))
    leases = desk.coordinator.rounds.leases
    assert leases.busy.keys() == {"a", "b", "c"} - {first}
    leases.validate()


def test_who_announces_nothing_is_judged_when_its_update_arrives(desk: Desk) -> None:
    desk.pull("a")
    assert desk.given == ["a"]
    desk.push("a", 1, samples=9)
    assert desk.ack.answer is Verdict.REJECTED_POLICY


def test_who_has_passed_is_not_judged_again(desk: Desk) -> None:
    desk.pull("a", plan=Plan(10, counts(1, 2)))
    [lease] = desk.records(Leased)
    assert (lease.planned, lease.counts.tolist()) == (10, [1, 2])
    for seq in range(5, 9):  # meanwhile the percentile rises
        desk.push("eve", seq, samples=1000)
    answers = []
    for seq in (1, 2):  # the second is of a task that nobody announced
        desk.push("a", seq, samples=9)
        answers.append(desk.ack.answer)
    refused = Verdict.REJECTED_POLICY
    assert answers == [Verdict.ACCEPTED, refused]


def test_what_is_announced_is_for_one_version() -> None:
    desk = Desk(FedBuff(buffer=1, update_filter=SMALL))
    desk.enrol("a", "eve")
    desk.push("eve", 1, samples=10)
    desk.pull("a", plan=Plan(10))
    desk.push("a", 1, base=0, samples=9)
    assert desk.ack.answer is Verdict.REJECTED_POLICY


def test_the_labels_are_judged_as_announced() -> None:
    desk = Desk(FedBuff(buffer=99, update_filter=ALIKE))
    desk.enrol("a", "eve")
    for seq, labels in enumerate([(9, 0), (9, 0), (1, 8), (1, 8)], 1):
        desk.push("eve", seq, counts=counts(*labels))
    desk.pull("a", plan=Plan(5, counts(0, 5)))
    assert desk.given == ["a"]
    desk.push("a", 1, counts=counts(10, 10))
    assert desk.ack.answer is Verdict.ACCEPTED
    filtered = desk.coordinator.state.learnt.update_filter
    assert filtered.labels_C.tolist() == [20, 21]  # with those that were announced
    desk.pull("a", plan=Plan(5, counts(20, 21)))
    assert desk.refused == [Answer.RETRY]
    assert filtered.labels_C.tolist() == [20, 21]  # nothing was trained on


def test_the_size_is_what_the_controllers_give() -> None:
    recipe = Fleet(
        buffer=99,
        update_filter=FleetController(size_percentile=50),
        controllers=[IProf(seconds=3)],
    )
    desk = Desk(recipe)
    desk.enrol("a")
    usual = recipe.client.used_by(500, 1)
    desk.pull("a", plan=Plan(500))
    [lease] = desk.records(Leased)
    assert lease.planned == usual == 100  # the batch, of all that it has


def test_without_a_percentile_nothing_is_judged_before() -> None:
    desk = Desk(Fleet(buffer=99))
    desk.enrol("a")
    desk.pull("a", plan=Plan(1))
    [lease] = desk.records(Leased)
    assert lease.planned is None


def test_a_client_that_only_fetches_the_model_gets_it(desk: Desk) -> None:
    desk.pull("a")
    assert any(isinstance(action, SendReply) for action in desk.actions)


def test_records_and_snapshots_restore_what_was_judged() -> None:
    live, records = run_with_a_refusal()
    config = live.coordinator.algorithm.config
    replayed, loaded = Desk(config), Desk(config)
    for record in records:
        replayed.coordinator.state.restore(record)
    loaded.coordinator.state.load(*live.coordinator.state.dump())
    learnt = photo(live.coordinator.state.learnt.update_filter)
    for other in (replayed, loaded):
        assert photo(other.coordinator.state.learnt.update_filter) == learnt
        assert other.coordinator.state.learnt.plans.of("a", 0) is not None
        other.push("a", 1, samples=1)
        assert other.ack.answer is Verdict.ACCEPTED


def test_a_replay_forgets_what_was_announced_of_a_refused_task() -> None:
    live, records = run_with_a_refusal()
    live.pull("a", plan=Plan(2))  # it asks again, for less
    records += [a.record for a in live.actions if isinstance(a, Persist)]
    replayed = Desk(live.coordinator.algorithm.config)
    for record in records:
        replayed.coordinator.state.restore(record)
    for desk in (live, replayed):
        assert desk.coordinator.state.learnt.plans.of("a", 0) is None


def run_with_a_refusal() -> tuple[Desk, list[Any]]:
    """A run in which b was refused and a was not, with its records."""
    desk = Desk(FedBuff(buffer=99, concurrency=1, update_filter=SMALL))
    found: list[Any] = []

    def note() -> None:
        found.extend(a.record for a in desk.actions if isinstance(a, Persist))

    for name in ("a", "b", "eve"):
        desk.enrol(name)
        note()
    for seq in range(1, 5):
        desk.push("eve", seq, samples=10)
        note()
    for name, size in (("b", 2), ("a", 10)):
        desk.pull(name, plan=Plan(size))
        note()
    assert [type(r) for r in found[-2:]] == [Declined, Leased]
    return desk, found


@pytest.mark.parametrize("percentile", [10, 30, 60])
def test_about_so_many_per_cent_of_all_requests_are_refused(percentile: int) -> None:
    """The invariant of FLeet's controller, as the server drives it."""
    config = FleetController(size_percentile=percentile, window=200)
    desk = Desk(FedBuff(buffer=10**6, staleness_limit=10**6, update_filter=config))
    desk.enrol("a")
    rng, seq, refused = np.random.default_rng(0), 0, 0
    for request in range(3000):
        size = int(rng.integers(1, 10_000))
        desk.pull("a", plan=Plan(size))
        if desk.refused:
            refused += request >= 1000
        else:
            seq += 1
            desk.push("a", seq, samples=size)
    assert refused / 2000 == pytest.approx(percentile / 100, abs=0.05)


@pytest.mark.parametrize("percentile", [10, 30])
def test_about_so_many_per_cent_of_all_updates_are_refused(percentile: int) -> None:
    """The same of clients that announce nothing."""
    config = FleetController(size_percentile=percentile, window=200)
    desk = Desk(FedBuff(buffer=10**6, staleness_limit=10**6, update_filter=config))
    desk.enrol("a")
    rng, refused = np.random.default_rng(0), 0
    for seq in range(1, 3001):
        desk.push("a", seq, samples=int(rng.integers(1, 10_000)))
        refused += seq > 1000 and desk.ack.answer is Verdict.REJECTED_POLICY
    assert refused / 2000 == pytest.approx(percentile / 100, abs=0.05)


def test_a_plan_is_of_the_task_that_it_was_announced_for() -> None:
    plans, task = Plans(), Announced(2, 10, None)
    plans.note("a", task)
    assert [plans.of("a", base) for base in (1, 2, 3)] == [None, task, None]
    assert plans.of("b", 2) is None
