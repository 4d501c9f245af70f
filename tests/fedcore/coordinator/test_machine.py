"""What else a coordinator promises: other settings, notes, and what stays as it is."""

import numpy as np
import pytest

from fedcore import compressors
from fedcore.aggregators import CoordinateMedian
from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import Identity, TopK
from fedcore.coordinator.actions import Finish, Persist, SendAck, SendReply, SetTimer
from fedcore.coordinator.events import (
    ClientEnrolled,
    Closed,
    Decided,
    Departed,
    Enrolled,
    Failed,
    HistoryForked,
    Leased,
    Lost,
    RunResumed,
    StateRolledBack,
    Stepped,
    StopRequested,
    UpdatePushed,
)
from fedcore.coordinator.settings import EvaluateConfig, StopConfig, TimeoutsConfig
from fedcore.params import content_digest
from fedcore.payloads import dense_payload, pack
from fedcore.protocol import NOTHING_SETTLED, Answer, ModelName, Push, Verdict
from fedcore.recipes import FedAsync, FedAvg, FedBuff
from fedcore.server_optimizers import EF21, Momentum
from fedcore.staleness import Constant, Inverse
from tests.fedcore.coordinator.desk import EPOCH, FRESH, SPEC, Desk


def desk_of(*names: str, **config: object) -> Desk:
    desk = Desk(FedBuff(**{"buffer": 9, **config}))
    desk.enrol(*names)
    return desk


# ------------------------------------------------------------------ other settings


def amended(desk: Desk, config: AlgorithmConfig, **settings: object) -> None:
    desk.coordinator.amend(
        config.build(SPEC),
        StopConfig(**settings),
        EvaluateConfig(every_versions=3),
        TimeoutsConfig(lease=77.0, hold=5.0, lost=9.0),
    )


def test_other_settings_hold_from_the_next_event_on() -> None:
    desk = desk_of("a", "b")
    amended(desk, FedBuff(buffer=1, concurrency=1, staleness=Inverse()), versions=2)
    desk.pull("a")
    desk.pull("b")
    assert desk.coordinator.rounds.leases.waiting.keys() == {"b"}  # there is one place
    leases = [at for t, at in desk.timers.items() if t.kind == "lease"]
    holds = [at for t, at in desk.timers.items() if t.kind == "hold"]
    assert (leases, holds) == ([77.0], [5.0])
    desk.push("a", 1)
    assert desk.version == 1  # the buffer holds one
    desk.push("b", 1, base=0)
    assert desk.ack.weight == 0.5  # and lateness counts
    assert desk.finished == "2 versions"


def test_other_settings_reach_the_state() -> None:
    desk = desk_of("a", server=Momentum(beta=0.5))
    desk.push("a", 1)
    amended(desk, FedBuff(buffer=9, server=Momentum(beta=0.5, lr=2.0)))
    assert desk.coordinator.state.algorithm is desk.coordinator.algorithm
    desk.coordinator.flush(0.0)
    assert desk.coordinator.state.exact_D.tolist() == [-2.0] * 4


def test_another_aggregator_begins_with_a_buffer_of_its_own() -> None:
    desk = desk_of("a", "b", "c", buffer=1)
    desk.push("a", 1)
    amended(desk, FedBuff(buffer=3, aggregator=CoordinateMedian()))
    for name, seq, value in (("a", 2, 1.0), ("b", 1, 50.0), ("c", 1, 2.0)):
        desk.push(name, seq, [value] * 4)
    assert desk.coordinator.state.exact_D.tolist() == [-3.0] * 4


def test_where_models_are_not_mixed_any_more_no_past_ones_are_kept() -> None:
    desk = Desk(FedAsync())
    desk.enrol("a")
    desk.push("a", 1)
    assert list(desk.coordinator.state.bases) == [0, 1]
    amended(desk, FedBuff(buffer=1))
    assert desk.coordinator.state.bases == {}
    amended(desk, FedAsync())
    assert list(desk.coordinator.state.bases) == [1]


def test_more_past_messages_are_kept_where_other_settings_say_so() -> None:
    desk = desk_of("a", buffer=1, downlink=TopK(ratio=0.25))
    state = desk.coordinator.state
    kept = []
    for seq in range(1, 31):
        if seq == 11:
            amended(desk, FedBuff(buffer=1, downlink=TopK(ratio=0.25), ring_bytes=200))
        desk.push("a", seq, [float(seq % 3), 1.0, 0.0, 0.0])
        kept.append(sum(entry.message_bytes for entry in state.published.ring))
    assert max(kept[:10]) <= state.published.model_bytes
    assert 150 < kept[-1] <= 200


def test_who_trained_before_other_settings_came_has_no_lease_any_more() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.pull("a")
    amended(desk, FedBuff(buffer=9, concurrency=1))
    desk.pull("b")
    assert desk.given == ["b"]


# ----------------------------------------------------------------------------- time


def test_a_flush_at_a_later_time_is_noted_with_it() -> None:
    desk = desk_of("a")
    desk.push("a", 1)
    (action,) = desk.coordinator.flush(50.0)
    assert isinstance(action, Persist)
    assert isinstance(action.record, Stepped)
    assert (action.record.at, action.record.reason) == (50.0, "flush")
    assert (action.record.count, action.record.samples) == (1, 1.0)


def test_an_empty_buffer_is_not_flushed() -> None:
    desk = desk_of("a")
    assert desk.coordinator.flush(50.0) == []
    assert desk.version == 0


def test_time_never_goes_back() -> None:
    desk = desk_of("a")
    desk.at = 9.0
    desk.push("a", 1)
    desk.at = 3.0
    desk.push("a", 2)
    (record,) = desk.records(Decided)
    assert record.at == 9.0


def test_a_push_whose_payload_is_wanted_by_now_is_sent_again() -> None:
    """Its header was refused and its payload left unread, before a task was given."""
    desk = desk_of("a")
    desk.push("a", 1)
    pushed = UpdatePushed(at=0.0, push=desk.pushed("a", 2), is_unread=True)
    desk.feed(pushed)
    assert (desk.ack.answer, desk.ack.seq) == (Answer.RETRY, 2)
    assert desk.coordinator.state.count == 1


def test_only_versions_that_there_are_can_have_been_measured() -> None:
    desk = desk_of("a")
    for version in (-1, 1):
        assert desk.evaluate("a", version, accuracy=0.5) == []
    assert desk.evaluate("a", 0, accuracy=0.5)


# --------------------------------------------------------------------------- clients


def test_who_enrols_again_as_it_was_is_not_noted_again() -> None:
    desk = Desk(FedBuff())
    desk.enrol("a")
    (record,) = desk.records(Enrolled)
    assert (record.name, record.role, record.index, record.count) == (
        ("a", "trainer", 0, 1)
    )
    desk.enrol("a")
    assert desk.actions == []
    desk.feed(ClientEnrolled(at=0.0, cid="a", name="other", index=3, count=7))
    (record,) = desk.records(Enrolled)
    assert (record.name, record.index, record.count) == ("other", 3, 7)
    assert desk.coordinator.state.clients["a"].name == "other"
    desk.feed(ClientEnrolled(at=0.0, cid="a", name="other", role="evaluator"))
    assert desk.records(Enrolled)
    assert desk.coordinator.state.clients["a"].role == "evaluator"


def test_who_is_lost_is_noted_once_and_makes_room() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.pull("a")
    desk.pull("b")
    desk.lose("a")
    assert [r.cid for r in desk.records(Lost)] == ["a"]
    assert desk.given == ["b"]
    desk.lose("a")
    assert desk.actions == []
    desk.lose("stranger")
    assert desk.actions == []


def test_whose_code_raised_makes_room() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.pull("a")
    desk.pull("b")
    desk.feed(Failed(at=1.0, cid="a", error="oh"))
    assert [(r.cid, r.error) for r in desk.records(Failed)] == [("a", "oh")]
    assert desk.given == ["b"]
    desk.feed(Failed(at=1.0, cid="stranger", error="oh"))
    assert desk.actions == []


def test_who_leaves_makes_room_and_leaves_once() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.enrol("judge", role="evaluator")
    desk.pull("judge")
    desk.measure("judge", 0, loss=1.0)
    desk.pull("judge")
    desk.pull("a")
    desk.pull("b")
    desk.feed(Departed(at=1.0, cid="a"))
    assert [r.cid for r in desk.records(Departed)] == ["a"]
    assert desk.given == ["b"]
    desk.feed(Departed(at=1.0, cid="a"))
    assert desk.actions == []
    desk.feed(Departed(at=1.0, cid="stranger"))
    assert desk.actions == []
    desk.feed(Departed(at=1.0, cid="judge"))
    assert desk.coordinator.evaluations.waiting == {}
    desk.pull("a")
    assert desk.refused == [Answer.UNKNOWN]


# ----------------------------------------------------------------------------- pulls


def test_a_task_is_noted_with_what_went_along() -> None:
    desk = desk_of("a")
    desk.pull("a", held=None)
    (record,) = desk.records(Leased)
    (reply,) = (a.reply for a in desk.actions if isinstance(a, SendReply))
    assert (record.cid, record.version, record.task) == ("a", 0, "train")
    assert (record.patch, record.nbytes) == ("full", reply.patch.nbytes)
    assert reply.task is not None
    assert reply.task.lease == desk.coordinator.timeouts.lease


def test_who_gets_a_task_at_once_is_not_held() -> None:
    desk = desk_of("a")
    desk.pull("a")
    kinds = {a.timer.kind for a in desk.actions if isinstance(a, SetTimer)}
    assert kinds == {"lease"}


def test_an_evaluator_takes_no_place_of_those_who_train() -> None:
    desk = desk_of("a", concurrency=1)
    desk.enrol("judge", role="evaluator")
    desk.pull("judge")
    assert desk.reply.task.kind == "evaluate"
    desk.pull("a")
    assert desk.reply.task.kind == "train"


# ---------------------------------------------------------------------------- pushes


def test_who_delivers_may_train_again_and_others_get_its_place() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.pull("a")
    desk.pull("b")
    desk.push("a", 1)
    assert desk.given == ["b"]


def test_even_a_rejected_update_makes_room() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.pull("a")
    desk.pull("b")
    desk.push("a", 1, samples=0)
    assert desk.ack.answer is Verdict.REJECTED_MALFORMED
    assert desk.given == ["b"]


def test_an_answer_without_a_verdict_makes_no_room() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.pull("a")
    desk.pull("b")
    desk.push("a", 1, epoch=FRESH)
    assert desk.given == []


def push_of(seq: int, **changes: object) -> Push:
    payload = pack(dense_payload(np.ones(4, np.float32)))
    told: dict[str, object] = {
        "cid": "a",
        "epoch": EPOCH,
        "seq": seq,
        "base": ModelName(EPOCH, 0),
        "payload": payload,
        "digest": content_digest(payload),
        "settled": NOTHING_SETTLED,
        "samples": 1,
    }
    return Push(**{**told, **changes})  # type: ignore[arg-type]


def test_an_update_that_was_put_aside_is_decided_and_its_bytes_are_kept() -> None:
    desk = desk_of("a", "b", concurrency=1)
    desk.pull("a")
    push = push_of(1, task=desk.coordinator.proofs.task(EPOCH, "a", 0, 0))
    actions = desk.coordinator.quarantine(push, "it raised")
    (record,) = (a.record for a in actions if isinstance(a, Persist))
    assert isinstance(record, Decided)
    assert (record.verdict, record.reason) == (
        Verdict.REJECTED_MALFORMED,
        "it raised",
    )
    assert (record.payload, record.nbytes) == (push.payload, len(push.payload))
    (ack,) = (a.ack for a in actions if isinstance(a, SendAck))
    assert (ack.seq, ack.answer, ack.weight) == (1, record.verdict, 0.0)
    desk.pull("b")
    assert desk.given == ["b"]
    assert desk.coordinator.quarantine(push, "again") == []


@pytest.mark.parametrize(
    "push",
    [
        push_of(1, cid="stranger"),
        push_of(1, cid="left"),
        *(push_of(1, epoch=other) for other in ("d" * 16, FRESH)),
        *(push_of(1, base=ModelName(other, 0)) for other in ("d" * 16, FRESH)),
        *(
            push_of(1, epoch=other, base=ModelName(other, 0))
            for other in ("d" * 16, FRESH)
        ),
        push_of(1, cid="decided"),
        push_of(0, cid="decided"),
    ],
)
def test_nothing_is_put_aside_that_is_not_there_to_be_decided(push: Push) -> None:
    desk = desk_of("a", "left", "decided")
    desk.feed(Departed(at=0.0, cid="left"))
    desk.push("decided", 1)
    assert desk.coordinator.quarantine(push, "it raised") == []


# ------------------------------------------------------------------------------- end


def test_what_is_over_does_not_end_again() -> None:
    desk = desk_of("a")
    desk.feed(StopRequested(at=1.0, reason="over"))
    assert desk.finished == "over"
    (closed,) = desk.records(Closed)
    assert (closed.version, closed.reason) == (0, "over")
    desk.feed(StopRequested(at=2.0, reason="again"))
    assert desk.actions == []
    assert desk.coordinator.state.closed == "over"


def test_an_ended_run_says_so_and_sets_its_timer_when_it_starts() -> None:
    desk = Desk(FedBuff(), StopConfig(seconds=30.0))
    desk.feed(StopRequested(at=1.0, reason="over"))
    actions = desk.coordinator.begin(2.0)
    assert actions[-1] == Finish(reason="over")
    assert [a.at for a in actions if isinstance(a, SetTimer)] == [30.0]
    desk.coordinator.rounds.stop = StopConfig()
    actions = desk.coordinator.begin(3.0, resume=True)
    (record,) = (a.record for a in actions if isinstance(a, Persist))
    assert record == RunResumed(at=3.0)
    assert desk.coordinator.state.closed is None


def test_a_run_whose_end_has_come_while_it_was_down_ends_at_its_start() -> None:
    desk = Desk(FedBuff(), StopConfig(seconds=30.0))
    desk.enrol("a")
    desk.push("a", 1)
    actions = desk.coordinator.begin(31.0)
    assert actions[-1] == Finish(reason="30 seconds")
    assert desk.version == 1
    # It is not resumed while its end lies behind it.
    assert desk.coordinator.begin(32.0, resume=True)[-1] == Finish(reason="30 seconds")


def test_a_new_history_keeps_its_version_and_says_why_it_began() -> None:
    desk = desk_of("a", buffer=1)
    desk.push("a", 1)
    desk.feed(StateRolledBack(at=2.0, fresh_epoch=FRESH, reason="cut off"))
    (opened,) = desk.records(HistoryForked)
    assert opened == HistoryForked(at=2.0, epoch=FRESH, version=1, reason="cut off")
    desk.pull("a", epoch=FRESH, settled=desk.settled["a"])
    assert desk.given == ["a"]


# ---------------------------------------------------------------------------- cohorts


def test_a_version_is_noted_with_all_that_went_in() -> None:
    desk = Desk(FedAvg(buffer=2, weigh_by="samples", samples_cap=3))
    desk.enrol("a", "b")
    desk.pull("a")
    desk.pull("b")
    desk.at = 4.0
    desk.push("a", 1, samples=2)
    desk.push("b", 1, samples=9)
    (record,) = desk.records(Stepped)
    published = desk.coordinator.state.published
    assert record == Stepped(
        at=4.0,
        version=1,
        reason="buffer",
        count=2,
        samples=5.0,
        digest=published.digest,
        gap_norm=0.0,
        nbytes=published.model_bytes,
        payload=b"",
    )
    assert desk.coordinator.state.applied == 2


def test_a_version_that_travels_is_noted_with_its_message_and_what_it_left() -> None:
    desk = Desk(FedBuff(buffer=1, downlink=TopK(ratio=0.25)))
    desk.enrol("a")
    desk.push("a", 1, [3.0, 4.0, -12.0, 0.0])
    (record,) = desk.records(Stepped)
    state = desk.coordinator.state
    assert state.published.public_D.tolist() == [0.0, 0.0, 12.0, 0.0]
    assert (record.gap_norm, record.nbytes) == (5.0, len(record.payload))
    assert record.payload == state.published.ring[-1].message


def test_changes_that_are_missing_at_a_flush_count_as_zeros() -> None:
    uplink, server = compressors.EF21(inner=Identity()), EF21()
    config = FedBuff(buffer=8, staleness=Constant(), uplink=uplink, server=server)
    desk = Desk(config)
    desk.enrol("a", "b")
    desk.push("a", 1, [8.0] * 4)
    desk.push("b", 1, [16.0] * 4)
    desk.coordinator.flush(0.0)
    assert desk.coordinator.state.exact_D.tolist() == [-3.0] * 4


def test_two_cohorts_of_one_version_are_drawn_apart() -> None:
    desk = Desk(FedAvg(buffer=2, minimum=1, deadline=5.0))
    names = [f"c{n}" for n in range(8)]
    desk.enrol(*names)
    for name in names:
        desk.pull(name)
    first = set(desk.coordinator.rounds.leases.busy)
    desk.fire("deadline")
    assert len(desk.given) == 2
    assert not first & set(desk.given)
