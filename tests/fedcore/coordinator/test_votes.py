"""Everybody counts once: a push needs a task, and a version has places for members."""

from typing import Any

import numpy as np
import pytest

from fedcore.aggregators import CoordinateMedian, TrimmedMean
from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import ErrorFeedback, TopK
from fedcore.coordinator.events import (
    ClientEnrolled,
    Decided,
    Evicted,
    Failed,
    Paused,
    StateRolledBack,
    Stepped,
    Unpaused,
)
from fedcore.proofs import Authenticator
from fedcore.protocol import Answer, ModelName, Proof, Verdict
from fedcore.recipes import FedAvg, FedBuff
from fedcore.update_filters import FleetController
from tests.fedcore.coordinator.desk import EPOCH, FRESH, SPEC, Desk
from tests.protocol.photo import photo

NO_TASK = "no task stands behind this update"
WITH_MEMORY = ErrorFeedback(inner=TopK(ratio=0.5))


def desk_of(*names: str, config: AlgorithmConfig) -> Desk:
    """A run some time after these clients have asked for tasks."""
    desk = Desk(config)
    desk.enrol(*names)
    for name in names:
        desk.pull(name)
    desk.at = 10.0  # nobody comes for the first time any more
    return desk


def task_of(desk: Desk, name: str) -> Proof:
    """The proof of a task that a client is given now."""
    desk.pull(name)
    assert desk.given == [name]
    return int(desk.reply.task.proof)


def answer_of(desk: Desk) -> Any:
    """What the last push was answered with."""
    return desk.ack.answer


def restarted(desk: Desk, config: AlgorithmConfig) -> Desk:
    """Another process that goes on with the same records."""
    again = Desk(config)
    again.coordinator.state.load(*desk.coordinator.state.dump())
    again.at, again.settled = desk.at, dict(desk.settled)
    again.coordinator.begin(desk.at)
    return again


# ----------------------------------------------------------------------------- tasks


def test_a_task_is_a_right_to_one_update_and_does_not_run_out() -> None:
    config = FedBuff(buffer=2)
    desk = desk_of("a", "b", config=config)
    desk.fire("lease")
    desk.fire("lease")
    again = restarted(desk, config)  # which knows no lease any more
    again.push("a", 1)
    assert answer_of(again) is Verdict.ACCEPTED
    again.push("b", 1)
    again.push("b", 2, task=desk.task_of("b", 0))  # that of the first update
    assert (again.ack.answer, again.ack.reason) == (Verdict.REJECTED_POLICY, NO_TASK)


def test_a_push_without_a_task_is_rejected_and_changes_no_model() -> None:
    desk = desk_of("a", config=FedBuff(buffer=1))
    desk.enrol("b")
    desk.push("b", 1, task=0)
    assert (desk.ack.answer, desk.ack.reason) == (Verdict.REJECTED_POLICY, NO_TASK)
    [decided] = desk.records(Decided)
    assert (decided.task, decided.payload, desk.version) == (False, b"", 0)
    desk.push("b", 1, task=0)  # the verdict is stored
    assert answer_of(desk) is Verdict.REJECTED_POLICY
    assert desk.records(Decided) == []


def forged(desk: Desk) -> dict[str, Proof]:
    """Proofs that are no right to update 1 of client a on version 0."""
    proofs, other = desk.proofs, Authenticator(b"another server's")
    return {
        "nothing": 0,
        "a guess": 1 << 40,
        "of another run": other.task(EPOCH, "a", 0, 0),
        "of another history": proofs.task(FRESH, "a", 0, 0),
        "of another client": proofs.task(EPOCH, "b", 0, 0),
        "of another version": proofs.task(EPOCH, "a", 1, 0),
        "of a later message": proofs.task(EPOCH, "a", 0, 1),
        "of a version that was published": proofs.version(EPOCH, 0),
        "of a verdict": proofs.verdict(EPOCH, "a", 0, None),
    }


@pytest.mark.parametrize("what", forged(Desk(FedBuff())))
def test_no_other_proof_passes_for_a_task(what: str) -> None:
    desk = desk_of("b", config=FedBuff(buffer=1))
    desk.enrol("a")
    desk.push("a", 1, task=forged(desk)[what])
    assert answer_of(desk) is Verdict.REJECTED_POLICY


def test_every_reply_to_a_pull_in_flight_is_worth_one_update() -> None:
    """A delayed copy of a pull gives no second right, and takes none away."""
    desk = desk_of("a", "b", config=FedBuff(buffer=8))
    tasks = [task_of(desk, "a") for _ in range(3)]
    assert len({*tasks}) == 1
    desk.push("a", 1, task=tasks[0])
    assert answer_of(desk) is Verdict.ACCEPTED
    for seq, task in enumerate(tasks, start=2):
        desk.push("a", seq, task=task)
        assert answer_of(desk) is Verdict.REJECTED_POLICY


def test_a_verdict_uses_a_task_up_and_an_answer_without_one_does_not() -> None:
    desk = desk_of("a", config=FedBuff(buffer=8))
    task = desk.task_of("a", 0)
    desk.push("a", 1, epoch=FRESH, task=task)
    assert answer_of(desk) is Answer.OTHER_EPOCH
    desk.push("a", 1, payload=b"junk", task=task)
    assert answer_of(desk) is Verdict.REJECTED_MALFORMED
    desk.push("a", 2, task=task)
    assert answer_of(desk) is Verdict.REJECTED_POLICY


def test_a_task_of_a_history_that_was_left_is_worth_nothing_in_the_next() -> None:
    desk = desk_of("a", config=FedBuff(buffer=8))
    task = desk.task_of("a", 0)
    desk.feed(StateRolledBack(at=desk.at, fresh_epoch=FRESH, reason="restored"))
    desk.push("a", 1, task=task)
    assert answer_of(desk) is Answer.OTHER_EPOCH
    desk.push("a", 1, epoch=FRESH, base=ModelName(FRESH, 0), task=task)
    assert answer_of(desk) is Verdict.REJECTED_POLICY


def test_what_no_task_stands_behind_teaches_nobody_anything() -> None:
    config = FedBuff(buffer=2, update_filter=FleetController(size_percentile=30))
    desk = desk_of("a", config=config)
    before = photo(desk.coordinator.state.learnt.update_filter)
    for seq in range(1, 9):
        desk.push("a", seq, task=0, samples=1000)
    assert photo(desk.coordinator.state.learnt.update_filter) == before
    again = Desk(config)
    again.enrol("a")
    for record in desk.records(Decided):
        again.coordinator.state.restore(record)
    assert photo(again.coordinator.state.learnt.update_filter) == before


def test_whoever_leaves_sends_its_memory_once_without_a_task() -> None:
    desk = desk_of("a", "b", config=FedBuff(buffer=8, uplink=WITH_MEMORY))
    desk.push("a", 1)
    for seq, answer in ((2, Verdict.ACCEPTED), (3, Verdict.REJECTED_POLICY)):
        desk.push("a", seq, steps=0, task=0)
        assert answer_of(desk) is answer
    again = restarted(desk, FedBuff(buffer=8, uplink=WITH_MEMORY))
    again.push("a", 4, steps=0, task=0)
    assert answer_of(again) is Verdict.REJECTED_POLICY


def test_without_memories_nobody_has_anything_left_to_send() -> None:
    desk = desk_of("a", config=FedBuff(buffer=8))
    desk.push("a", 1, steps=0, task=0)
    assert answer_of(desk) is Verdict.REJECTED_POLICY


def test_whoever_leaves_takes_no_place_in_the_cohort_from_others() -> None:
    desk = desk_of("a", "b", config=FedAvg(buffer=2, uplink=WITH_MEMORY))
    desk.push("a", 1)
    desk.push("a", 2, steps=0, task=0)
    assert answer_of(desk) is Answer.RETRY
    assert "waits for the next" in desk.ack.reason
    desk.push("b", 1)
    assert answer_of(desk) is Verdict.ACCEPTED
    desk.push("a", 2, steps=0, task=0)
    assert answer_of(desk) is Verdict.ACCEPTED


def test_a_newcomer_has_nothing_to_send_without_a_task() -> None:
    desk = desk_of("a", config=FedBuff(buffer=8, uplink=WITH_MEMORY))
    desk.push("a", 1, steps=0, task=0)
    assert answer_of(desk) is Verdict.REJECTED_POLICY


@pytest.mark.parametrize("recipe", [FedBuff, FedAvg])
def test_a_verdict_without_a_task_gives_no_right_to_a_farewell(recipe: Any) -> None:
    config = recipe(buffer=8, uplink=WITH_MEMORY)
    desk = desk_of("a", config=config)
    desk.push("a", 1, task=0)
    for seq in (2, 3):
        desk.push("a", seq, steps=0, task=0)
        assert desk.ack.reason == NO_TASK
    again = restarted(desk, config)
    again.push("a", 4, steps=0, task=0)
    assert again.ack.reason == NO_TASK


def test_farewells_of_many_keys_take_the_places_of_one_member() -> None:
    desk = Desk(FedBuff(buffer=4, places=2, uplink=WITH_MEMORY))
    keys = ("k1", "k2")
    for cid in keys:
        desk.feed(ClientEnrolled(at=desk.at, cid=cid, name="site", certified=True))
        desk.pull(cid)
    for cid in keys:
        desk.push(cid, 1)
    for cid in keys:
        desk.push(cid, 2, steps=0, task=0)
        assert answer_of(desk) is Answer.RETRY
    assert desk.coordinator.state.count == 2


# --------------------------------------------------------------------------- cohorts


def test_a_cohort_without_one_of_its_clients_is_the_mean_of_the_others() -> None:
    desk = desk_of("a", "b", "c", config=FedAvg(buffer=3))
    desk.push("a", 1, [1.0] * 4, samples=1)
    desk.feed(Failed(at=desk.at, cid="c", error="no data"))
    desk.pull("a")
    assert desk.given == []
    desk.push("b", 1, [4.0] * 4, samples=2)
    [stepped] = desk.records(Stepped)
    assert (stepped.reason, stepped.count) == ("complete", 2)
    assert desk.coordinator.state.exact_D.tolist() == [-3.0] * 4


@pytest.mark.parametrize("how", ["lost", "failed", "evicted", "left", "late"])
def test_a_round_ends_when_all_that_can_come_have_come(how: str) -> None:
    desk = desk_of("a", "b", config=FedAvg(buffer=2, deadline=None))
    desk.push("a", 1)
    assert desk.version == 0
    if how == "lost":
        desk.lose("b")
    elif how == "failed":
        desk.feed(Failed(at=desk.at, cid="b", error="no data"))
    elif how == "evicted":
        desk.feed(Evicted(at=desk.at, name="b"))
    elif how == "left":
        desk.push("b", 1, payload=b"junk")
    else:
        while desk.version == 0:
            desk.fire("lease")
    [stepped] = desk.records(Stepped)
    assert (stepped.reason, stepped.count) == ("complete", 1)


def test_whoever_comes_for_the_first_time_brings_others() -> None:
    """A cohort that could be larger waits a little after somebody has come."""
    desk = Desk(FedAvg(buffer=3))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.at = 4.0
    desk.push("a", 1)
    assert desk.version == 0
    desk.pull("b")
    assert desk.given == ["b"]
    desk.push("b", 1)
    while desk.version == 0:
        desk.fire("complete")
    assert (desk.at, desk.records(Stepped)[0].count) == (9.0, 2)


def test_after_a_restart_a_cohort_waits_for_those_who_are_known() -> None:
    config = FedAvg(buffer=3)
    desk = desk_of("a", "b", "c", config=config)
    desk.push("a", 1)
    again = restarted(desk, config)
    again.at = 30.0
    again.pull("a")
    assert again.given == []  # it has delivered to this version
    again.pull("b")
    assert again.given == ["b"]
    again.push("b", 1)
    assert again.version == 0
    again.push("c", 1)  # its task is as good as before
    [stepped] = again.records(Stepped)
    assert (stepped.reason, stepped.count) == ("buffer", 3)


def test_after_a_restart_a_cohort_waits_for_members_and_not_for_their_keys() -> None:
    config = FedAvg(buffer=3, deadline=None)
    desk = Desk(config)
    for cid, name in (("old", "site"), ("new", "site"), ("b", "b")):
        desk.feed(ClientEnrolled(at=desk.at, cid=cid, name=name, certified=True))
    again = restarted(desk, config)
    again.at = 11.0
    for cid in ("new", "b"):
        again.pull(cid)
    for cid in ("new", "b"):
        again.push(cid, 1)
    while again.version == 0:
        again.fire("complete")
    assert again.at < 30.0
    assert again.records(Stepped)[0].count == 2


def test_after_a_restart_a_cohort_ends_soon_once_all_are_back() -> None:
    config = FedAvg(buffer=3, deadline=None)
    desk = desk_of("a", "b", config=config)
    desk.push("a", 1)
    again = restarted(desk, config)
    again.at = 11.0
    again.pull("a")  # it waits for b, until 70
    again.at = 12.0
    again.pull("b")
    again.push("b", 1)
    while again.version == 0:
        again.fire("complete")
    assert (again.at, again.records(Stepped)[0].count) == (17.0, 2)


def test_after_a_restart_a_cohort_does_not_wait_for_ever() -> None:
    config = FedAvg(buffer=3, deadline=None)
    desk = desk_of("a", "b", "c", config=config)
    desk.push("a", 1)
    again = restarted(desk, config)
    again.at = 11.0
    again.pull("a")
    while again.version == 0:
        again.fire("complete")
    assert (again.at, again.records(Stepped)[0].count) == (70.0, 1)


def test_a_deadline_with_too_few_updates_invites_only_others() -> None:
    config = FedAvg(buffer=3, minimum=3, deadline=20.0)
    desk = desk_of("a", "b", "c", config=config)
    desk.push("a", 1)
    desk.pull("a")
    desk.fire("deadline")
    assert desk.given == []
    desk.enrol("d")
    desk.pull("d")
    assert desk.given == ["d"]
    desk.push("b", 1)
    desk.push("c", 1)  # both trained all the time
    [stepped] = desk.records(Stepped)
    assert (stepped.reason, stepped.count) == ("buffer", 3)


def test_a_late_update_leaves_its_client_free_for_this_version() -> None:
    """It was rejected, so its client has had no part in the version yet."""
    desk = desk_of("a", "b", "c", config=FedAvg(buffer=2, over_selection=1.5))
    desk.push("a", 1)
    desk.push("b", 1)
    assert desk.version == 1
    desk.push("c", 1, base=0)
    assert answer_of(desk) is Verdict.REJECTED_STALE
    given = []
    for name in ("a", "b", "c"):
        desk.pull(name)
        given += desk.given
    assert given == ["a", "b", "c"]


def test_a_late_update_that_counts_is_its_clients_part_in_the_version() -> None:
    config = FedAvg(buffer=2, over_selection=1.5, staleness_limit=1)
    desk = desk_of("a", "b", "c", config=config)
    desk.push("a", 1)
    desk.push("b", 1)
    desk.push("c", 1, base=0)
    assert answer_of(desk) is Verdict.ACCEPTED
    desk.pull("c")
    assert desk.given == []


# --------------------------------------------------------------------------- members


def test_a_name_is_one_member_under_all_its_keys() -> None:
    desk = desk_of("a", "b", config=FedAvg(buffer=3))
    for cid in ("k1", "k2"):
        desk.feed(ClientEnrolled(at=desk.at, cid=cid, name="site", certified=True))
    desk.pull("k1")
    assert desk.given == ["k1"]
    desk.push("k1", 1)
    desk.pull("k2")
    assert desk.given == []
    desk.push("k2", 1)  # if it has a task all the same
    assert answer_of(desk) is Answer.RETRY
    desk.push("a", 1)
    desk.push("b", 1)
    assert desk.version == 1
    desk.push("k2", 1, base=1)
    assert answer_of(desk) is Verdict.ACCEPTED


@pytest.mark.parametrize("config", [FedBuff(buffer=4), FedBuff(buffer=4, places=2)])
def test_one_client_has_its_places_in_a_buffer_and_then_waits(config: Any) -> None:
    desk = desk_of("a", "b", "c", "d", config=config)
    for seq in (1, 2):
        desk.push("a", seq)
        desk.pull("a")
    assert desk.given == []
    desk.push("b", 1)
    desk.push("c", 1)
    assert desk.version == 1
    assert desk.given == ["a"]


def test_places_that_are_used_up_outlast_a_restart() -> None:
    config = FedBuff(buffer=4, places=1)
    desk = desk_of("a", "b", config=config)
    desk.push("a", 1)
    again = restarted(desk, config)
    again.pull("a")
    assert again.given == []
    again.pull("b")
    assert again.given == ["b"]


def test_a_rule_against_outliers_sees_a_member_once_under_all_its_keys() -> None:
    rule = CoordinateMedian()
    desk = Desk(FedBuff(buffer=4, places=2, aggregator=rule))
    for cid, name in (("k1", "site"), ("k2", "site"), ("b", "b"), ("c", "c")):
        desk.feed(ClientEnrolled(at=desk.at, cid=cid, name=name, certified=True))
        desk.pull(cid)
    for cid, value in (("k1", 900.0), ("k2", 700.0), ("b", 1.0), ("c", 2.0)):
        desk.push(cid, 1, [value] * 4)
    assert desk.version == 1
    assert desk.coordinator.state.exact_D.tolist() == [-2.0] * 4  # of 800, 1 and 2


@pytest.mark.parametrize("rule", [CoordinateMedian(), TrimmedMean(trim=0.34)])
def test_a_rule_against_outliers_sees_each_client_once(rule: Any) -> None:
    desk = desk_of("a", "b", "c", config=FedBuff(buffer=4, aggregator=rule))
    for seq, value in ((1, 900.0), (2, 700.0)):
        desk.push("a", seq, [value] * 4)
    desk.push("b", 1, [1.0] * 4)
    desk.push("c", 1, [3.0] * 4)
    assert desk.version == 1
    assert desk.coordinator.state.exact_D.tolist() == [-3.0] * SPEC.dim


def test_places_make_no_sense_in_a_cohort() -> None:
    with pytest.raises(ValueError, match="places is for asynchronous algorithms"):
        FedAvg(places=2)


# ---------------------------------------------------------------------------- pauses


def test_nothing_enters_a_paused_run_by_any_way() -> None:
    desk = desk_of("a", "b", config=FedBuff(buffer=2, uplink=WITH_MEMORY))
    desk.feed(Paused(at=desk.at))
    for steps, task in ((1, desk.task_of("a", 0)), (0, 0), (1, 0)):
        desk.push("a", 1, steps=steps, task=task)
        assert answer_of(desk) is Answer.RETRY
    assert np.array_equal(desk.coordinator.state.exact_D, [0.0] * 4)
    desk.feed(Unpaused(at=desk.at))
    desk.push("a", 1)
    assert answer_of(desk) is Verdict.ACCEPTED
