"""Who trains when: asynchronous, synchronous, and what lies between."""

import numpy as np
import pytest

from fedcore.coordinator.events import (
    ClientEnrolled,
    Failed,
    Leased,
    Lost,
    Stepped,
)
from fedcore.protocol import Verdict
from fedcore.recipes import FedAvg, FedBuff
from fedcore.selection import All, AnySelection, UniformSelection
from tests.fedcore.coordinator.desk import Desk


def test_whoever_pulls_an_asynchronous_federation_trains_at_once() -> None:
    desk = Desk(FedBuff(buffer=2))
    desk.enrol("a", "b")
    desk.pull("a")
    assert desk.given == ["a"]
    desk.pull("b")
    assert desk.given == ["b"]


def test_concurrency_limits_how_many_train_and_a_delivery_makes_room() -> None:
    desk = Desk(FedBuff(buffer=5, concurrency=1))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    assert desk.given == []
    desk.push("a", 1)
    assert desk.given == ["b"]


def test_a_lease_that_ends_makes_room_but_its_update_still_counts() -> None:
    desk = Desk(FedBuff(buffer=5, concurrency=1))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.fire("hold")  # b waits no longer, and asks again
    desk.pull("b")
    desk.fire("lease")
    assert desk.given == ["b"]
    desk.push("a", 1)
    assert desk.ack.answer is Verdict.ACCEPTED


def test_nobody_trains_before_enough_clients_are_there() -> None:
    desk = Desk(FedBuff(buffer=2, min_clients=3))
    desk.enrol("a", "b", "c")
    for name in ("a", "b"):
        desk.pull(name)
        assert desk.given == []
    desk.pull("c")
    assert desk.given == ["a", "b", "c"]


def test_a_full_buffer_makes_a_version() -> None:
    desk = Desk(FedBuff(buffer=2))
    desk.enrol("a", "b")
    desk.push("a", 1, [2.0] * 4)
    assert desk.version == 0
    desk.push("b", 1, [4.0] * 4)
    assert desk.version == 1
    assert desk.coordinator.state.exact_D.tolist() == [-3.0] * 4
    assert desk.records(Stepped)[0].reason == "buffer"


def test_a_synchronous_cohort_has_as_many_clients_as_the_buffer() -> None:
    desk = Desk(FedAvg(buffer=2, selection=All()))
    desk.enrol("a", "b", "c")
    given = []
    for name in ("a", "b", "c"):
        desk.pull(name)
        given += desk.given
    assert given == ["a", "b"]
    desk.push("a", 1)
    assert desk.given == []  # c waits for the next version
    desk.push("b", 1)
    assert desk.version == 1
    assert desk.given == ["c"]


def test_the_next_cohort_is_drawn_from_all_idle_clients() -> None:
    desk = Desk(FedAvg(buffer=1))
    names = [f"c{i}" for i in range(10)]
    desk.enrol(*names)
    chosen = set()
    for name in names:
        desk.pull(name)
        chosen |= set(desk.given)
    for seq in range(1, 60):
        busy = desk.coordinator.rounds.leases.busy
        who = next((n for n, lease in busy.items() if lease is not None), None)
        if who is None:
            break
        desk.push(who, desk.coordinator.state.clients[who].seq + 1)
        chosen |= set(desk.given)
        desk.pull(who)
        chosen |= set(desk.given)
        assert seq
    assert len(chosen) == len(names)


def test_over_selection_closes_the_round_with_the_fastest() -> None:
    desk = Desk(FedAvg(buffer=2, over_selection=1.5, selection=All()))
    desk.enrol("a", "b", "c", "d")
    given = []
    for name in ("a", "b", "c", "d"):
        desk.pull(name)
        given += desk.given
    assert given == ["a", "b", "c"]
    desk.push("a", 1)
    desk.push("b", 1)
    assert desk.version == 1
    desk.push("c", 1, base=0)
    assert desk.ack.answer is Verdict.REJECTED_STALE


def test_a_lost_client_of_a_cohort_is_replaced_at_once() -> None:
    desk = Desk(FedAvg(buffer=1, selection=All()))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.lose("a")
    assert desk.given == ["b"]


def test_at_the_deadline_the_minimum_is_enough() -> None:
    desk = Desk(FedAvg(buffer=3, minimum=2, deadline=60.0, selection=All()))
    desk.enrol("a", "b", "c")
    for name in ("a", "b", "c"):
        desk.pull(name)
    desk.push("a", 1, [3.0] * 4)
    desk.push("b", 1, [5.0] * 4)
    desk.fire("deadline")
    assert desk.version == 1
    assert desk.records(Stepped)[0].reason == "deadline"
    assert desk.coordinator.state.exact_D.tolist() == [-4.0] * 4


def test_a_cohort_that_melted_away_makes_room_for_a_fresh_one() -> None:
    desk = Desk(FedAvg(buffer=2, minimum=2, deadline=60.0, selection=All()))
    desk.enrol("a", "b", "c", "d")
    for name in ("a", "b", "c", "d"):
        desk.pull(name)
    desk.push("a", 1)
    desk.fire("deadline")  # b is silent; one update is not enough
    assert desk.version == 0
    assert desk.given == ["c"]  # with a's update, one more is needed
    desk.push("c", 1)
    assert desk.version == 1


def test_what_was_accepted_before_the_deadline_stays_in_the_buffer() -> None:
    desk = Desk(FedAvg(buffer=2, minimum=2, deadline=60.0, selection=All()))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.push("a", 1)
    desk.fire("deadline")
    assert desk.coordinator.state.count == 1


def test_a_deadline_of_an_older_version_does_nothing() -> None:
    desk = Desk(FedAvg(buffer=1, deadline=60.0, selection=All()))
    desk.enrol("a")
    desk.pull("a")
    desk.push("a", 1)
    desk.fire("deadline")
    assert desk.version == 1
    assert not desk.records(Stepped)


def test_an_asynchronous_federation_may_have_a_deadline_too() -> None:
    desk = Desk(FedBuff(buffer=10, deadline=5.0))
    desk.enrol("a")
    desk.pull("a")
    desk.push("a", 1)
    desk.fire("deadline")
    assert desk.version == 1


def test_a_pull_that_waits_too_long_is_answered_without_a_task() -> None:
    desk = Desk(FedAvg(buffer=1, selection=All()))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.fire("hold")
    assert desk.answered == ["b"]
    assert desk.given == []


def test_a_pull_sent_again_replaces_the_one_that_waits() -> None:
    desk = Desk(FedAvg(buffer=1, selection=All()))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.pull("b")
    desk.push("a", 1)
    assert desk.given.count("b") + desk.given.count("a") == 1


def test_leases_are_told_to_the_journal_with_the_bytes_that_went_along() -> None:
    desk = Desk(FedBuff(buffer=1))
    desk.enrol("a")
    desk.pull("a", held=None)
    (lease,) = desk.records(Leased)
    assert (lease.patch, lease.nbytes) == ("full", desk.reply.patch.nbytes)


@pytest.mark.parametrize("weigh_by", ["updates", "samples"])
def test_updates_count_alike_or_by_their_samples(weigh_by: str) -> None:
    config = FedBuff(buffer=2, weigh_by=weigh_by, samples_cap=3)
    desk = Desk(config)
    desk.enrol("a", "b")
    desk.push("a", 1, [1.0] * 4, samples=1)
    desk.push("b", 1, [2.0] * 4, samples=100)
    expected = {"updates": -1.5, "samples": -(1.0 + 3 * 2.0) / 4}[weigh_by]
    np.testing.assert_allclose(desk.coordinator.state.exact_D, [expected] * 4)


def test_a_place_in_a_cohort_goes_to_whoever_has_not_delivered_yet() -> None:
    desk = Desk(FedAvg(buffer=2))
    desk.enrol("a", "b", "c")
    for name in "abc":
        desk.pull(name)
    desk.push("a", 1)
    desk.pull("a")
    desk.feed(Lost(at=0.0, cid="b"))
    assert desk.given == ["c"]


def test_an_evaluator_that_fails_is_no_trainer_for_that() -> None:
    desk = Desk(FedBuff(buffer=2))
    desk.enrol("eva", role="evaluator")
    desk.pull("eva")
    desk.feed(Failed(at=0.0, cid="eva", error="division by zero"))
    assert not desk.coordinator.rounds.leases.present


def cohorts(arrival: str, ids: dict[str, str], selection: AnySelection) -> list[str]:
    """Who trains each of six versions, by name, if clients come in this order."""
    desk = Desk(FedAvg(buffer=2, min_clients=5, selection=selection))
    for name in arrival:
        enrolled = ClientEnrolled(at=0, cid=ids[name], name=name, role="trainer")
        desk.feed(enrolled)
    names, given, seen = {cid: name for name, cid in ids.items()}, [], []
    for name in arrival:
        desk.pull(ids[name])
        given += desk.given
    for version in range(6):
        seen.append("".join(sorted(names[cid] for cid in given)))
        cohort, given = sorted(given, key=lambda cid: arrival.index(names[cid])), []
        for cid in cohort:
            desk.push(cid, seen_of(desk, cid) + 1)
            given += desk.given
        for cid in cohort:
            desk.pull(cid)
            given += desk.given
        assert desk.version == version + 1
    return seen


def seen_of(desk: Desk, cid: str) -> int:
    """The sequence number of a client's last message."""
    return desk.coordinator.state.clients[cid].seq


def test_a_cohort_drawn_by_lot_does_not_depend_on_who_came_first() -> None:
    ids = {name: name for name in "abcde"}
    other_ids = dict(zip("abcde", "vuxwy", strict=True))
    drawn = cohorts("abcde", ids, UniformSelection())
    assert cohorts("decab", ids, UniformSelection()) == drawn
    assert cohorts("caebd", other_ids, UniformSelection()) == drawn
    assert len(set(drawn)) > 1
    assert cohorts("abcde", ids, All()) != cohorts("decab", ids, All())


def tasks_of(desk: Desk, name: str) -> int:
    """How many tasks a client gets in a row, while nobody else does anything."""
    for seq in range(1, 9):
        desk.pull(name)
        if desk.given != [name]:
            return seq - 1
        desk.push(name, seq)
    return seq


@pytest.mark.parametrize("goes", ["idle", "unanswered", "evaluator"])
def test_nobody_waits_for_who_is_there_and_does_not_train(goes: str) -> None:
    desk = Desk(FedBuff(buffer=1, ahead=1, min_clients=1 + (goes == "unanswered")))
    desk.enrol("a", "b")
    if goes == "unanswered":  # and does not ask again
        desk.pull("b")
        desk.fire("hold")
    else:
        desk.pull("b")
        desk.push("b", 1)
    if goes == "evaluator":
        desk.enrol("b", role="evaluator")
        desk.pull("b")
    if goes == "idle":
        assert tasks_of(desk, "a") == 2
        while desk.given != ["a"]:
            desk.fire("lease")
    else:
        assert tasks_of(desk, "a") == 8
