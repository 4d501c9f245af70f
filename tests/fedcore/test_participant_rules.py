"""A client's side of the protocol, rule by rule (docs/protocol.md)."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from fedcore import payloads
from fedcore.algorithm import AlgorithmConfig
from fedcore.arrays import norm
from fedcore.compressors import Cyclic, DeadZone, ErrorFeedback, Identity, TopK
from fedcore.controllers import Bandwidth, Report
from fedcore.controllers.bandwidth import Link
from fedcore.errors import PayloadError, ProtocolError
from fedcore.params import ParamSpec, digest
from fedcore.participant import (
    Outcome,
    OutdatedError,
    Participant,
    ParticipantState,
    Trained,
    WrongModelError,
)
from fedcore.participant.machine import change_history, newest
from fedcore.participant.state import Sent
from fedcore.payloads import dense_payload, pack
from fedcore.payloads.block import turn_of
from fedcore.protocol import (
    HISTORY,
    LARGEST,
    NOTHING_SETTLED,
    Ack,
    Answer,
    Held,
    ModelName,
    Patch,
    Receipt,
    Reply,
    Settled,
    Verdict,
)
from fedcore.recipes import FedAvg, FedDyn
from fedcore.rng import Key
from fedcore.typing import Vector

EPOCH, LATER, DIM = "0" * 16, "1" * 16, 200
BASE = ModelName(EPOCH, 0)
SPEC = ParamSpec.of({"w": np.zeros(DIM)})
SPARSE = FedAvg(uplink=ErrorFeedback(inner=TopK(ratio=0.05)))
ZEROS_D = np.zeros(DIM, np.float32)
RAMP_D = np.arange(1, DIM + 1, dtype=np.float32)


def client(config: AlgorithmConfig = SPARSE, **changes: Any) -> Participant:
    """A client that holds version 0, which is zeros."""
    state = ParticipantState(
        "ann", "run", EPOCH, held=Held(EPOCH, 0, digest(ZEROS_D)), public_D=ZEROS_D
    )
    return Participant(config.build(SPEC), replace(state, **changes))


def trains(one: Participant, delta_D: Vector = RAMP_D, base: ModelName = BASE) -> bool:
    return one.finish(Trained(delta_D, samples=1), base, Key.root(0))


def answered(one: Participant, answer: Verdict | Answer, **changes: Any) -> Outcome:
    """The message in flight is sent, and answered."""
    push = one.push()
    ack = Ack(seq=push.seq, digest=push.digest, answer=answer)
    return one.settle(replace(ack, **changes))


def message(one: Participant) -> Vector:
    """What the message in flight says."""
    assert one.state.pending is not None
    packed = one.state.pending.push.payload
    return np.asarray(payloads.decode(payloads.unpack(packed, SPEC.sizes)))


def memory(one: Participant) -> Vector:
    assert one.state.memory_D is not None
    return one.state.memory_D


def full(model_D: Vector, version: int, epoch: str = EPOCH, **changes: Any) -> Patch:
    """A whole model."""
    packed = pack(dense_payload(model_D))
    patch = Patch(
        kind="full",
        epoch=epoch,
        start=-1,
        version=version,
        digest=digest(model_D),
        parts=(packed,),
        lengths=(len(packed),),
    )
    return replace(patch, **changes)


def hears(one: Participant, patch: Patch, **changes: Any) -> bool:
    """The answer to a pull."""
    pull = one.pull(nonce=7)
    reply = Reply(nonce=pull.nonce, patch=patch, receipt=None)
    return one.receive(replace(reply, **changes))


def left(one: Participant) -> tuple[str, ...]:
    """The histories that it has left."""
    return tuple(each.epoch for each in one.state.abandoned)


def receipt(one: Participant, seq: int, verdict: Verdict, **changes: Any) -> Receipt:
    pending = one.state.pending
    known = pending.push.digest if pending else "d" * 32
    return Receipt(seq, known, verdict, 1.0, 0)._replace(**changes)


# ------------------------------------------------------------------------- pulls


def test_only_the_answer_to_the_outstanding_pull_counts_and_only_once() -> None:
    one = client()
    one.pull(nonce=1)
    one.pull(nonce=2)
    patch = full(RAMP_D, 1)
    assert not one.receive(Reply(nonce=1, patch=patch, receipt=None))
    assert one.state.held == Held(EPOCH, 0, digest(ZEROS_D))
    assert one.receive(Reply(nonce=2, patch=patch, receipt=None))
    assert not one.receive(Reply(nonce=2, patch=full(ZEROS_D, 2), receipt=None))
    assert one.state.held == Held(EPOCH, 1, digest(RAMP_D))
    assert one.state.patch == patch.nbytes


def test_version_0_is_made_at_home_if_it_is_the_right_one() -> None:
    one = client(held=None, public_D=None)
    one.derive(RAMP_D, digest(ZEROS_D))
    assert one.state.held is None
    one.derive(RAMP_D, digest(RAMP_D))
    assert one.state.held == Held(EPOCH, 0, digest(RAMP_D))
    np.testing.assert_array_equal(one.state.public_D, RAMP_D)
    held = client()
    held.derive(RAMP_D, digest(RAMP_D))  # what is held is newer
    assert held.state.held == Held(EPOCH, 0, digest(ZEROS_D))


def test_a_pull_asks_about_all_messages_that_could_still_be_taken_back() -> None:
    one = client()
    assert one.pull(1).history_from == 1  # the next one
    trains(one)
    assert one.pull(1).history_from == 1  # the one in flight
    answered(one, Verdict.ACCEPTED)
    trains(one)
    answered(one, Verdict.REJECTED_STALE)
    trains(one)
    assert one.state.seq == 3
    assert one.pull(1).history_from == 1  # the oldest of the history
    assert replace_history(one, ()).pull(1).history_from == 3
    answered(one, Verdict.ACCEPTED)
    assert replace_history(one, ()).pull(1).history_from == 4


def replace_history(one: Participant, history: tuple[Sent, ...]) -> Participant:
    return Participant(one.algorithm, replace(one.state, history=history))


def test_a_receipt_of_the_message_in_flight_settles_it() -> None:
    one = client()
    trains(one)
    left_D = RAMP_D - message(one)
    known = receipt(one, 1, Verdict.ACCEPTED)
    assert hears(one, full(RAMP_D, 1), receipt=known)
    assert one.state.pending is None
    assert one.state.settled == Settled(1, Verdict.ACCEPTED)
    np.testing.assert_array_equal(memory(one), left_D)


def test_a_receipt_of_an_older_message_settles_nothing() -> None:
    one = client()
    trains(one)
    answered(one, Verdict.ACCEPTED)
    trains(one)
    old = Receipt(1, "d" * 32, Verdict.REJECTED_STALE, 1.0, 0)
    assert hears(one, full(RAMP_D, 1), receipt=old)
    assert one.state.pending is not None
    assert one.state.settled == Settled(1, Verdict.ACCEPTED)


@pytest.mark.parametrize(
    ("seq", "known"), [(2, "the same"), (9, "the same"), (1, "another")]
)
def test_a_receipt_of_what_this_disk_never_sent_says_that_it_is_old(
    seq: int, known: str
) -> None:
    one = client()
    trains(one)
    before = one.state
    said = receipt(one, seq, Verdict.ACCEPTED)
    if known == "another":
        said = said._replace(digest="e" * 32)
    with pytest.raises(OutdatedError):
        hears(one, full(RAMP_D, 1), receipt=said)
    assert one.state is before


# ------------------------------------------------------------------- the model


def test_a_model_with_another_digest_is_dropped_and_asked_for_whole() -> None:
    one = client()
    trains(one)
    in_flight, memory_D = one.state.pending, memory(one)
    with pytest.raises(WrongModelError):
        hears(one, full(RAMP_D, 1, digest="0" * 32))
    assert one.state.public_D is None
    asked = one.pull(8).held
    assert asked is None or asked.digest == ""  # no version that a patch could fit
    assert one.state.pending is in_flight
    assert memory(one) is memory_D


def test_a_whole_model_that_is_wrong_twice_in_a_row_ends_the_client() -> None:
    one, wrong = client(), full(RAMP_D, 1, digest="0" * 32)
    for _ in range(2):  # once, then a right one, then once again
        with pytest.raises(WrongModelError):
            hears(one, wrong)
        assert hears(one, full(RAMP_D, 1))
    with pytest.raises(WrongModelError):
        hears(one, wrong)
    with pytest.raises(ProtocolError, match="twice"):
        hears(one, wrong)


def test_a_patch_that_is_wrong_is_never_the_end() -> None:
    one = client()
    packed = pack(dense_payload(RAMP_D))
    wrong = full(RAMP_D, 1, digest="0" * 32)
    for _ in range(4):
        patch = replace(wrong, kind="replay", start=0, parts=(packed,))
        with pytest.raises(WrongModelError):
            hears(one, patch)
        assert hears(one, full(ZEROS_D, 0))


@pytest.mark.parametrize("kind", ["replay", "overwrite"])
@pytest.mark.parametrize("held", [None, Held(EPOCH, 3, "d")])
def test_a_patch_for_another_version_is_refused_and_changes_nothing(
    kind: Any, held: Held | None
) -> None:
    one = client(held=held)
    before = one.state
    with pytest.raises(PayloadError, match="from version 0"):
        hears(one, full(RAMP_D, 1, kind=kind, start=0))
    assert one.state is before


def test_junk_in_place_of_a_model_changes_nothing_not_even_the_history() -> None:
    one = client()
    trains(one)
    before = one.state
    junk = full(RAMP_D, 1, epoch=LATER, parts=(b"junk",), lengths=(4,))
    with pytest.raises(PayloadError):
        hears(one, junk)
    assert one.state is before


def test_the_same_model_again_is_no_patch() -> None:
    one = client()
    same = full(ZEROS_D, 0, kind="none", start=0, parts=(), lengths=())
    assert hears(one, same)
    assert one.state.held == Held(EPOCH, 0, digest(ZEROS_D))
    assert one.state.patch == 0


# ------------------------------------------------------------------ other histories


def test_what_another_history_does_not_hold_comes_back() -> None:
    one = client()
    messages = []
    for verdict in (Verdict.ACCEPTED, Verdict.REJECTED_POLICY, Verdict.ACCEPTED):
        trains(one)
        messages.append(message(one))
        answered(one, verdict)
    trains(one)
    messages.append(message(one))
    pending = one.state.pending
    assert pending is not None
    residual_D = pending.residual_D
    assert residual_D is not None
    before_D = memory(one)
    # There, the second counted and the first did not; the fourth was never seen.
    known = Receipt(3, "d" * 32, Verdict.ACCEPTED, 1.0, 0)
    hears(one, full(RAMP_D, 5, LATER), accepted=(2, 3), receipt=known)
    expected_D = before_D + residual_D + messages[3] + messages[0] - messages[1]
    np.testing.assert_allclose(memory(one), expected_D)
    assert [(s.seq, s.in_model) for s in one.state.history] == [
        (1, False), (2, True), (3, True), (4, False),
    ]  # fmt: skip
    assert one.state.pending is None
    assert (one.state.epoch, left(one)) == (LATER, (EPOCH,))
    assert one.state.settled == Settled(3, Verdict.ACCEPTED)
    assert one.state.held == Held(LATER, 5, digest(RAMP_D))


@pytest.mark.parametrize("counts", [False, True])
def test_in_another_history_a_method_that_counts_updates_loses_what_is_gone(
    counts: bool,
) -> None:
    """FedDyn sums its updates: one that counted there stays in the sum."""
    one = client(FedDyn())
    trains(one)
    answered(one, Verdict.ACCEPTED)
    kept_D = RAMP_D.copy()  # as if the sum were that of the one message
    history = one.state.history
    one = client(FedDyn(), kept=kept_D, history=history, keeper="fed_dyn")
    assert one.state.memory_D is None
    hears(one, full(RAMP_D, 5, LATER), accepted=(1,) if counts else ())
    assert np.array_equal(one.state.kept, kept_D) == counts


def test_in_another_history_a_method_loses_the_update_in_flight() -> None:
    one = client(FedDyn())
    trains(one)
    one.state = replace(one.state, kept=RAMP_D.copy())  # as if the sum were this one
    hears(one, full(RAMP_D, 5, LATER))
    assert not one.state.kept.any()


def test_a_message_in_flight_that_another_history_holds_is_not_sent_again() -> None:
    one = client()
    trains(one)
    left_D = RAMP_D - message(one)
    known = receipt(one, 1, Verdict.ACCEPTED)
    hears(one, full(RAMP_D, 5, LATER), accepted=(1,), receipt=known)
    np.testing.assert_array_equal(memory(one), left_D)
    assert [(s.seq, s.in_model) for s in one.state.history] == [(1, True)]


def test_without_a_receipt_nothing_is_settled_in_the_new_history() -> None:
    one = client()
    trains(one)
    answered(one, Verdict.ACCEPTED)
    hears(one, full(RAMP_D, 0, LATER))
    assert one.state.settled == NOTHING_SETTLED


def test_a_client_remembers_the_last_sixteen_histories_that_it_left() -> None:
    one = client()
    names = [f"{number:016x}" for number in range(1, 40)]
    for name in names:
        hears(one, full(RAMP_D, 0, name))
    assert left(one) == tuple(names[-17:-1])
    assert len(left(one)) == HISTORY


# ------------------------------------------------------------------------- updates


def test_a_message_holds_what_the_server_is_told_of_it() -> None:
    one = client(memory_D=RAMP_D, settled=Settled(4, Verdict.DISCARDED), seq=4)
    oldest = ModelName(EPOCH, -2)
    one.state = replace(one.state, oldest=oldest)
    counts = np.array([3, 4])
    trained = Trained(RAMP_D, samples=5, steps=6, loss=0.5, counts=counts, kept=3)
    assert one.finish(trained, BASE, Key.root(0))
    push = one.push()
    corrected_D = 2 * RAMP_D
    assert (push.cid, push.epoch, push.seq, push.base) == ("ann", EPOCH, 5, BASE)
    assert (push.samples, push.steps, push.loss) == (5, 6, 0.5)
    assert push.counts is counts
    assert push.settled == Settled(4, Verdict.DISCARDED)
    assert push.oldest == oldest
    assert push.update_norm == pytest.approx(norm(corrected_D))
    assert push.memory_norm == pytest.approx(norm(corrected_D - message(one)))
    assert one.state.kept == 3
    assert one.state.seq == 5
    assert not memory(one).any()


def test_while_a_message_is_in_flight_an_update_stays_in_the_memory() -> None:
    one = client()
    assert trains(one)
    in_flight = one.state.pending
    assert not one.finish(Trained(RAMP_D, samples=1, kept=5), BASE, Key.root(1))
    assert one.state.pending is in_flight
    np.testing.assert_array_equal(memory(one), RAMP_D)
    assert one.state.kept == 5


def test_an_update_on_a_history_that_was_left_stays_in_the_memory() -> None:
    one = client()
    assert not trains(one, base=ModelName(LATER, 0))
    assert (one.state.pending, one.state.seq) == (None, 0)
    np.testing.assert_array_equal(memory(one), RAMP_D)
    assert one.state.ledger.lost == 0


def test_without_a_memory_what_cannot_be_sent_is_booked_as_lost() -> None:
    one = client(FedAvg())
    if one.state.memory_D is not None:
        one = client(FedAvg(uplink=Identity()))
    assert not trains(one, base=ModelName(LATER, 0))
    assert not trains(one, base=ModelName(LATER, 0))
    assert one.state.ledger.lost == pytest.approx(2 * norm(RAMP_D))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_update_that_is_not_finite_is_dropped_and_counted(bad: float) -> None:
    one = client(memory_D=RAMP_D)
    delta_D = RAMP_D.copy()
    delta_D[3] = bad
    assert not trains(one, delta_D)
    assert "tensor 'w' is not finite" in one.unusable
    assert not trains(one, delta_D)
    assert one.state.ledger.nonfinite == 2
    np.testing.assert_array_equal(memory(one), RAMP_D)
    assert trains(one)
    assert one.unusable == ""


def test_a_memory_beyond_its_cap_is_scaled_down_and_the_rest_is_booked() -> None:
    config = FedAvg(uplink=ErrorFeedback(inner=TopK(ratio=0.5), cap=2.0))
    one = client(config, memory_D=10 * RAMP_D)
    assert trains(one, 0 * RAMP_D)  # an empty round leaves it alone
    assert one.state.ledger.capped == 0
    answered(one, Verdict.REJECTED_STALE)
    np.testing.assert_allclose(memory(one), 10 * RAMP_D)
    for _ in range(2):
        assert trains(one)
        assert one.push().update_norm == pytest.approx(3 * norm(RAMP_D), rel=1e-5)
        answered(one, Verdict.REJECTED_STALE)
    capped = (10 - 2) + (3 - 2)
    assert one.state.ledger.capped == pytest.approx(capped * norm(RAMP_D), rel=1e-5)


# ------------------------------------------------------------------------ verdicts


def test_an_accepted_message_leaves_its_residual() -> None:
    one = client(oldest=BASE, work=0.25)
    trains(one)
    left_D = RAMP_D - message(one)
    assert answered(one, Verdict.ACCEPTED) is Outcome.SETTLED
    np.testing.assert_array_equal(memory(one), left_D)
    assert one.state.history[-1].in_model
    assert (one.state.oldest, one.state.work) == (None, 1.0)
    assert (one.state.ledger.accepted, one.state.ledger.rejected) == (1, 0)


@pytest.mark.parametrize("verdict", [v for v in Verdict if v.returns_mass])
def test_a_rejected_message_comes_back_with_the_base_that_it_had(
    verdict: Verdict,
) -> None:
    one = client()
    trains(one)
    answered(one, verdict)
    np.testing.assert_allclose(memory(one), RAMP_D)
    assert [(s.seq, s.in_model) for s in one.state.history] == [(1, False)]
    assert one.state.settled == Settled(1, verdict)
    assert one.state.oldest == BASE
    trains(one, base=ModelName(EPOCH, 9))
    answered(one, Verdict.REJECTED_POLICY)
    assert one.state.oldest == BASE  # the oldest that is in the memory
    assert (one.state.ledger.accepted, one.state.ledger.rejected) == (0, 2)
    assert one.state.ledger.lost == 0


def test_a_discarded_message_is_gone_and_booked() -> None:
    one = client()
    trains(one)
    left_D, size = RAMP_D - message(one), one.push().update_norm
    answered(one, Verdict.DISCARDED)
    np.testing.assert_array_equal(memory(one), left_D)
    assert one.state.history == ()
    assert one.state.settled == Settled(1, Verdict.DISCARDED)
    assert one.state.ledger.discarded == pytest.approx(size)


def test_without_a_memory_a_rejected_update_is_booked_as_lost() -> None:
    one = client(FedAvg(uplink=Identity()))
    trains(one)
    answered(one, Verdict.REJECTED_STALE)
    trains(one)
    answered(one, Verdict.REJECTED_STALE)
    assert one.state.memory_D is None
    assert one.state.ledger.lost == pytest.approx(2 * norm(RAMP_D))
    assert one.state.ledger.capped == 0
    assert one.state.history == ()


def test_work_is_halved_when_a_first_sending_came_too_late_and_only_then() -> None:
    one = client()
    for expected in (0.5, 0.25):
        trains(one)
        answered(one, Verdict.REJECTED_STALE)
        assert one.state.work == expected
    trains(one)
    one.push()  # and no answer
    answered(one, Verdict.REJECTED_STALE)
    assert one.state.work == 0.25
    trains(one)
    answered(one, Verdict.REJECTED_POLICY)
    assert one.state.work == 0.25
    trains(one)
    restarted = Participant(one.algorithm, one.state)  # it may have been sent before
    answered(restarted, Verdict.REJECTED_STALE)
    assert restarted.state.work == 0.25
    trains(restarted)
    answered(restarted, Verdict.ACCEPTED)
    assert restarted.state.work == 1.0
    fresh = Participant(one.algorithm, replace(restarted.state, work=1.0))
    trains(fresh)
    answered(fresh, Verdict.REJECTED_STALE)
    assert fresh.state.work == 0.5


def test_a_message_that_a_lost_process_had_sent_was_late_anyhow() -> None:
    one = client()
    trains(one)  # to the same bytes as before, and not sent yet
    known = receipt(one, 1, Verdict.REJECTED_STALE)
    hears(one, full(RAMP_D, 1), receipt=known)
    assert one.state.settled == Settled(1, Verdict.REJECTED_STALE)
    assert one.state.work == 1.0


def test_the_same_complaint_twice_in_a_row_ends_the_client() -> None:
    one, malformed = client(), Verdict.REJECTED_MALFORMED
    for reason in ("too short", "too long", "too short"):
        trains(one)
        answered(one, malformed, reason=reason)
    trains(one)
    answered(one, Verdict.ACCEPTED)
    trains(one)
    answered(one, malformed, reason="too short")
    trains(one)
    with pytest.raises(ProtocolError, match="too short"):
        answered(one, malformed, reason="too short")
    silent = client()
    for _ in range(3):
        trains(silent)
        answered(silent, malformed)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer.UNKNOWN, Outcome.ENROL),
        (Answer.OTHER_EPOCH, Outcome.PULL),
        (Answer.RETRY, Outcome.RETRY),
        (Answer.RECEIVED, Outcome.RETRY),
    ],
)
def test_an_answer_without_a_verdict_settles_nothing(
    answer: Answer, outcome: Outcome
) -> None:
    one = client()
    trains(one)
    before = one.state
    assert answered(one, answer) is outcome
    assert one.state is before


def test_an_obsolete_message_says_that_the_disk_is_old() -> None:
    one = client()
    trains(one)
    with pytest.raises(OutdatedError):
        answered(one, Answer.OBSOLETE)


@pytest.mark.parametrize("changes", [{"seq": 2}, {"seq": 0}, {"digest": "e" * 32}])
def test_a_verdict_on_another_message_is_ignored(changes: Any) -> None:
    one = client()
    trains(one)
    before = one.state
    assert answered(one, Verdict.ACCEPTED, **changes) is Outcome.IGNORED
    assert one.state is before
    assert answered(one, Verdict.ACCEPTED) is Outcome.SETTLED
    late = Ack(seq=1, digest="d" * 32, answer=Verdict.ACCEPTED)
    assert one.settle(late) is Outcome.IGNORED


# ----------------------------------------------------------------- what is remembered


def test_the_last_messages_are_remembered_sixteen_or_one_model_of_bytes() -> None:
    def sent(seq: int, size: int) -> Sent:
        return Sent(seq, bytes(size), in_model=True)

    many = [sent(seq, 1) for seq in range(1, 41)]
    assert [s.seq for s in newest(many, 1000)] == list(range(25, 41))
    assert [s.seq for s in newest(many, 3)] == [38, 39, 40]
    assert [s.seq for s in newest([sent(1, 5), sent(2, 5)], 10)] == [1, 2]
    assert [s.seq for s in newest([sent(1, 5), sent(2, 6)], 10)] == [2]
    assert [s.seq for s in newest([sent(1, 5), sent(2, 99)], 10)] == [2]
    assert newest([], 10) == ()


def test_small_messages_are_remembered_up_to_one_model_of_bytes() -> None:
    one, every = client(), []
    for seq in range(1, 25):
        trains(one)
        every.append(Sent(seq, one.push().payload, in_model=True))
        answered(one, Verdict.ACCEPTED)
        assert one.state.history == newest(every, 4 * DIM)
    assert 2 < len(one.state.history) < HISTORY


def test_a_fresh_client_has_sent_lost_and_settled_nothing() -> None:
    state = ParticipantState("ann", "run", EPOCH)
    assert (state.seq, state.work, state.left) == (0, 1.0, False)
    assert state.settled == NOTHING_SETTLED
    assert set(asdict(state.ledger).values()) == {0}
    assert (state.held, state.pending, state.history) == (None, None, ())


def test_a_cycle_goes_on_after_any_verdict_and_in_another_history() -> None:
    one = client(FedAvg(uplink=ErrorFeedback(inner=Cyclic(ratio=0.1))))
    starts = []
    for verdict in (
        Verdict.ACCEPTED,
        Verdict.REJECTED_STALE,
        Verdict.DISCARDED,
        Verdict.REJECTED_POLICY,
    ):
        trains(one)
        assert one.state.pending is not None
        packed = one.state.pending.push.payload
        starts.append(turn_of(payloads.unpack(packed, SPEC.sizes))[1])
        answered(one, verdict)
    assert starts == [0, 20, 40, 60]
    trains(one)
    assert hears(one, full(RAMP_D, 1, LATER))
    assert one.state.recalled == 100  # a message that may not count was in flight


def test_a_client_with_a_memory_remembers_messages_of_one_model_of_bytes() -> None:
    one = client(FedAvg(uplink=ErrorFeedback(inner=DeadZone(ratio=0.9))))
    for _ in range(30):
        trains(one)
        answered(one, Verdict.ACCEPTED)
    sizes = [len(sent.payload) for sent in one.state.history]
    assert 1 <= len(sizes) <= HISTORY
    assert sum(sizes) <= 4 * DIM or len(sizes) == 1
    assert one.state.history[-1].seq == 30


# --------------------------------------------------------------------------- leaving


def test_before_it_leaves_a_client_sends_all_that_its_memory_holds() -> None:
    one = client(memory_D=RAMP_D, held=Held(EPOCH, 4, "d"))
    assert one.flush()
    push = one.push()
    np.testing.assert_array_equal(message(one), RAMP_D)
    assert (push.base, push.samples, push.steps) == (ModelName(EPOCH, 4), 1, 0)
    assert push.update_norm == pytest.approx(norm(RAMP_D))
    assert push.memory_norm == 0.0
    assert not one.flush()  # it is in flight
    answered(one, Verdict.ACCEPTED)
    assert not memory(one).any()
    assert not one.flush()  # nothing is left
    assert one.state.seq == 1


def test_nothing_is_flushed_without_a_model_or_a_memory() -> None:
    assert not client(memory_D=RAMP_D, held=None).flush()
    assert not client(FedAvg(uplink=Identity())).flush()


def test_what_a_client_takes_along_is_booked_as_lost() -> None:
    one = client(memory_D=RAMP_D)
    one.leave()
    assert one.state.ledger.lost == pytest.approx(norm(RAMP_D))
    assert one.state.left
    assert not memory(one).any()
    one.leave()
    assert one.state.ledger.lost == pytest.approx(norm(RAMP_D))
    without = client(FedAvg(uplink=Identity()))
    without.leave()
    assert without.state.left


# ------------------------------------------------------------------------ controllers


def test_without_controllers_nothing_is_observed_and_nobody_rests() -> None:
    one = client()
    before = one.state
    one.observe(Report(at=5.0, nbytes=10**9, upload_seconds=10.0))
    assert one.state is before
    assert one.rest(5.0, 10**9) == 0.0


def test_a_rest_counts_what_comes_next_and_a_report_what_has_passed() -> None:
    limits = (Bandwidth(daily=1000),)
    uplink = ErrorFeedback(inner=TopK(ratio=0.5))
    one = client(FedAvg(uplink=uplink, controllers=limits))
    hears(one, full(RAMP_D, 1))
    patch = one.state.patch
    assert patch > 4 * DIM
    one.observe(Report(at=5.0, nbytes=1000 - patch - 10))
    assert one.rest(5.0, 10) == 0.0  # it fits, to the byte
    assert one.rest(5.0, 11) > 0.0
    one.observe(Report(at=5.0, nbytes=10))
    assert one.rest(5.0) == 0.0
    one.observe(Report(at=5.0, nbytes=1))
    assert one.rest(5.0) > 0.0
    one.state = replace(one.state, controlled={"bandwidth": Link(used=990 - patch)})
    trains(one)
    pending = one.state.pending
    assert pending is not None
    length = len(pending.push.payload)
    rest = 10 + patch - length
    assert one.rest(5.0, rest) == 0.0
    assert one.rest(5.0, rest + 1) > 0.0
    one.observe(Report(at=5.0, nbytes=10**6, upload_seconds=1.0))
    assert one.state.controlled["bandwidth"].share < 1.0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_update_of_no_number_is_dropped_in_words(value: float) -> None:
    one = client()
    assert not trains(one, np.full(DIM, value, np.float32))
    assert one.unusable
    assert not memory(one).any()


def test_who_changes_history_holds_no_model_until_one_comes() -> None:
    one = client()
    reply = Reply(nonce=7, patch=full(RAMP_D, 5, LATER), receipt=None)
    state = change_history(one.algorithm, one.state, reply)
    assert state.held is None
    assert state.public_D is None


def test_an_update_that_no_message_of_this_memory_holds_is_dropped_in_words() -> None:
    large_D = np.full(DIM, 0.6 * LARGEST / DIM**0.5, np.float32)
    one = client(memory_D=large_D)  # each is small enough, and their sum is not
    assert not trains(one, large_D)
    assert one.unusable
    assert one.state.pending is None
