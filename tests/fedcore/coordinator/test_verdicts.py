"""What becomes of an update, and in which order it is checked."""

from typing import Any

import numpy as np
import pytest

from fedcore.aggregators import MIFA, FedNova, FlexibleParticipation, WeightedMean
from fedcore.aggregators.base import AggregatorConfig
from fedcore.clients import LocalSGD
from fedcore.coordinator.events import ClientEnrolled, Decided, Departed
from fedcore.coordinator.settings import EvaluateConfig, StopConfig, TimeoutsConfig
from fedcore.coordinator.state import Arrived, efforts, size_of
from fedcore.measured import Measured
from fedcore.payloads import (
    dense_payload,
    low_rank_payload,
    pack,
    values_payload,
)
from fedcore.protocol import MOST_COUNTED, Answer, ModelName, Settled, Verdict
from fedcore.recipes import FedAsync, FedBuff
from fedcore.staleness import Inverse
from fedcore.update_filters import FleetController
from tests.fedcore.coordinator.desk import EPOCH, FRESH, SPEC, Desk


@pytest.fixture
def desk() -> Desk:
    made = Desk(FedBuff(buffer=2, staleness_limit=3, staleness=Inverse()))
    made.enrol("a", "b")
    return made


def test_an_update_is_accepted_with_the_weight_of_its_staleness(desk: Desk) -> None:
    for seq in range(1, 3):
        desk.push("a", seq)
    desk.push("b", 1, base=0)
    assert (desk.ack.answer, desk.ack.weight) == (Verdict.ACCEPTED, 0.5)
    assert desk.ack.version == 1


def test_a_late_update_is_rejected_and_changes_nothing(desk: Desk) -> None:
    for seq in range(1, 9):
        desk.push("a", seq)
    before = desk.coordinator.state.buffer.copy()
    desk.push("b", 1, base=0)
    assert desk.ack.answer is Verdict.REJECTED_STALE
    assert desk.ack.reason == "4 versions late, the limit is 3"
    assert desk.ack.weight == 0.0
    assert (desk.coordinator.state.buffer == before).all()


def test_one_version_late_is_said_in_the_singular() -> None:
    desk = Desk(FedBuff(buffer=1, staleness_limit=0))
    desk.enrol("a", "b")
    desk.push("a", 1)
    desk.push("b", 1, base=0)
    assert desk.ack.reason == "1 version late, the limit is 0"


def test_what_cannot_be_mixed_any_more_is_late() -> None:
    desk = Desk(FedBuff(buffer=1))
    desk.enrol("a")
    desk.push("a", 1)
    mixing = FedAsync().build(SPEC)
    settings = StopConfig(), EvaluateConfig(), TimeoutsConfig()
    desk.coordinator.amend(mixing, *settings)
    desk.push("a", 2, base=0)
    assert (desk.ack.answer, desk.ack.weight) == (Verdict.REJECTED_STALE, 0.0)
    assert desk.ack.reason == "the server no longer has version 0 to mix with"
    desk.push("a", 3, base=1)
    assert desk.ack.answer is Verdict.ACCEPTED


@pytest.mark.parametrize(
    "aggregator",
    [WeightedMean(), FedNova(), MIFA(), FlexibleParticipation(boost=10)],
)
def test_no_number_of_samples_makes_the_model_infinite(
    aggregator: AggregatorConfig,
) -> None:
    config = FedBuff(
        buffer=4,
        weigh_by="samples",
        aggregator=aggregator,
        client=LocalSGD(steps=5),
    )
    desk = Desk(config)
    desk.enrol("a")
    huge, small = [2.0**100] * 4, [2.0**60] * 4
    with np.errstate(all="raise"):
        desk.push("a", 1, huge, samples=MOST_COUNTED)
        assert desk.ack.answer is Verdict.DISCARDED
        assert "absurdly large to count for 1099511627776 samples" in desk.ack.reason
        for seq in range(2, 6):
            desk.push("a", seq, small, samples=MOST_COUNTED)
    assert desk.coordinator.state.applied == 4
    assert np.isfinite(desk.coordinator.state.exact_D).all()


@pytest.mark.parametrize(
    ("aggregator", "answer"),
    [(WeightedMean(), Verdict.ACCEPTED), (FedNova(), Verdict.DISCARDED)],
)
def test_what_counts_for_more_by_its_steps_may_be_less_large(
    aggregator: AggregatorConfig, answer: Verdict
) -> None:
    client = LocalSGD(steps=1024)
    desk = Desk(
        FedBuff(buffer=2, weigh_by="samples", aggregator=aggregator, client=client)
    )
    desk.enrol("a")
    desk.push("a", 1, [2.0**98] * 4, samples=1 << 14)  # 2^98 * 2^14 * 2 * 2^10 = 2^123
    assert desk.ack.answer is Verdict.ACCEPTED
    desk = Desk(desk.coordinator.state.algorithm.config)
    desk.enrol("a")
    desk.push("a", 1, [2.0**98] * 4, samples=1 << 15)
    assert desk.ack.answer is answer


def test_what_a_rule_refuses_is_not_lost_and_counts_for_nothing() -> None:
    desk = Desk(FedBuff(buffer=99, update_filter=FleetController(size_percentile=50)))
    desk.enrol("a")
    for seq in range(1, 12):
        desk.push("a", seq, samples=100)
    desk.push("a", 12, samples=1)
    assert (desk.ack.answer, desk.ack.weight) == (Verdict.REJECTED_POLICY, 0.0)
    assert desk.ack.reason
    assert desk.coordinator.state.count == 11


@pytest.mark.parametrize(
    ("oldest", "noted"),
    [
        (None, None),
        (ModelName(EPOCH, 3), 3),
        (ModelName("d" * 16, 3), None),
        (ModelName(FRESH, 3), None),
    ],
)
def test_the_oldest_base_of_an_update_is_noted_if_it_is_of_this_history(
    desk: Desk, oldest: ModelName | None, noted: int | None
) -> None:
    desk.push("a", 1, oldest=oldest)
    (record,) = desk.records(Decided)
    assert record.oldest == noted


def test_a_duplicate_gets_the_verdict_that_was_stored(desk: Desk) -> None:
    desk.push("a", 1)
    desk.push("a", 1, settled=Settled())
    assert desk.ack.answer is Verdict.ACCEPTED
    assert not desk.records(Decided)
    assert desk.coordinator.state.count == 1


def test_the_same_number_with_other_bytes_is_obsolete(desk: Desk) -> None:
    desk.push("a", 1)
    desk.push("a", 1, [9.0] * 4)
    assert desk.ack.answer is Answer.OBSOLETE


def test_a_number_below_the_last_one_is_obsolete(desk: Desk) -> None:
    desk.push("a", 5)
    desk.push("a", 4)
    assert desk.ack.answer is Answer.OBSOLETE


def test_the_number_of_no_message_is_obsolete(desk: Desk) -> None:
    desk.push("a", 0)
    assert desk.ack.answer is Answer.OBSOLETE
    assert not desk.records(Decided)


def test_an_unknown_client_must_enrol_first(desk: Desk) -> None:
    desk.push("stranger", 1)
    assert desk.ack.answer is Answer.UNKNOWN
    desk.pull("stranger")
    assert desk.refused == [Answer.UNKNOWN]


@pytest.mark.parametrize("other", ["d" * 16, FRESH])
@pytest.mark.parametrize("of", ["message", "base", "both"])
def test_what_is_of_another_history_gets_no_verdict(
    desk: Desk, of: str, other: str
) -> None:
    epoch = EPOCH if of == "base" else other
    base = ModelName(EPOCH if of == "message" else other, 0)
    desk.push("a", 1, epoch=epoch, base=base)
    assert desk.ack.answer is Answer.OTHER_EPOCH
    assert not desk.records(Decided)


def test_a_reply_to_another_history_names_what_counts_in_this_one(desk: Desk) -> None:
    for seq in range(1, 6):
        desk.push("a", seq)
    desk.pull("a", epoch=FRESH, history_from=4)
    assert desk.reply.accepted == (4, 5)


def test_a_bound_that_is_too_large_names_no_tensor(desk: Desk) -> None:
    """The largest of P times the largest of Q; here no product is as large."""
    p_RM = np.array([[2.0**60, 0], [0, 1]], np.float32)
    q_RN = np.array([[1, 0], [0, 2.0**60]], np.float32)
    desk.push("a", 1, payload=pack(low_rank_payload(p_RM, q_RN)))
    assert desk.ack.answer is Verdict.DISCARDED
    assert desk.ack.reason.endswith("absurdly large values")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0**101])
def test_a_value_that_is_no_number_is_discarded(desk: Desk, bad: float) -> None:
    desk.push("a", 1, [bad, 0.0, 0.0, 0.0])
    assert (desk.ack.answer, desk.ack.weight) == (Verdict.DISCARDED, 0.0)
    assert np.isfinite(desk.coordinator.state.exact_D).all()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payload": pack(dense_payload(np.ones(3, np.float32)))}, "expected 4 values"),
        ({"payload": b""}, "ends early"),
        ({"payload": b"\x01\x63\x04\0\0\0"}, "unknown payload format 99"),
        ({"samples": 0}, "expected 1 to"),
        ({"samples": 1 << 50}, "expected 1 to"),
        ({"counts": np.array([-1])}, "label counts"),
        ({"counts": np.zeros(70_000, np.int64)}, "label counts"),
        (
            {"payload": pack(values_payload(4, np.array([0]), np.ones(1, np.float32)))},
            "no update",
        ),
    ],
)
def test_what_cannot_be_read_is_rejected_with_the_reason(
    desk: Desk, changes: dict[str, object], reason: str
) -> None:
    desk.push("a", 1, **changes)
    assert desk.ack.answer is Verdict.REJECTED_MALFORMED
    assert reason in desk.ack.reason
    assert desk.ack.weight == 0.0
    assert desk.coordinator.state.count == 0
    (record,) = desk.records(Decided)
    assert (record.payload, record.counts) == (b"", None)


def _brittle(state: object, staleness: int, counts: object) -> float:
    """A policy that raises at updates that are three versions late."""
    return 1 / (3 - staleness)


def test_an_update_at_which_judging_raises_is_decided_and_its_bytes_are_kept() -> None:
    desk = Desk(FedBuff(buffer=1, staleness_limit=9))
    desk.enrol("a", "b")
    state = desk.coordinator.state
    brittle = state.algorithm.staleness._replace(weigh=_brittle)
    state.algorithm = state.algorithm._replace(staleness=brittle)
    for seq in range(1, 4):
        desk.push("a", seq)
    before = desk.coordinator.state.exact_D.copy()
    desk.push("b", 1, base=0)
    assert desk.ack.answer is Verdict.REJECTED_MALFORMED
    said = "judging it raised ZeroDivisionError: division by zero (_brittle, line "
    assert desk.ack.reason.startswith(said)
    (decided,) = desk.records(Decided)
    assert len(decided.payload) == decided.nbytes > 0
    assert (desk.coordinator.state.exact_D == before).all()
    told = desk.ack
    desk.push("b", 1, base=0)
    assert desk.ack == told
    assert not desk.records(Decided)
    desk.push("b", 2)
    assert desk.ack.answer.value == Verdict.ACCEPTED.value


@pytest.mark.parametrize(
    "raised", [MemoryError("x" * 9999), RecursionError(), KeyError]
)
def test_a_decoder_may_raise_anything(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, raised: Any
) -> None:
    def magnitude(payload: object) -> float:
        raise raised

    monkeypatch.setattr("fedcore.payloads.magnitude", magnitude)
    desk.push("a", 1)
    assert desk.ack.answer is Verdict.REJECTED_MALFORMED
    assert len(desk.ack.reason) < 300
    assert desk.ack.reason.count("x") == (200 if "xx" in str(raised) else 0)


def test_a_client_that_left_is_unknown_but_its_last_verdict_stays(desk: Desk) -> None:
    desk.push("a", 1)
    desk.feed(Departed(at=0.0, cid="a"))
    desk.push("a", 2)
    assert desk.ack.answer is Answer.UNKNOWN
    desk.push("a", 1, settled=Settled())
    assert desk.ack.answer.value == Verdict.ACCEPTED.value
    desk.feed(ClientEnrolled(at=0.0, cid="a", name="a"))
    assert desk.refused == [Answer.OBSOLETE]


def test_the_limit_follows_the_clients_that_have_joined_and_not_left() -> None:
    desk = Desk(FedBuff(buffer=1))
    desk.enrol("a", *(f"c{number}" for number in range(9)))
    state = desk.coordinator.state
    for seq in range(1, 152):
        desk.push("a", seq)
    desk.push("c0", 1, base=0)
    assert desk.ack.answer is Verdict.ACCEPTED  # 151 late, of at most 200
    restored = Desk(FedBuff(buffer=1)).coordinator.state
    restored.load(*state.dump())
    assert restored.limit == state.limit == 200
    for number in range(5):
        desk.feed(Departed(at=1.0, cid=f"c{number}"))
    assert state.limit == 100
    desk.push("c8", 1, base=0)
    assert desk.ack.reason == "152 versions late, the limit is 100"


def test_evaluators_are_not_in_flight() -> None:
    desk = Desk(FedBuff(buffer=1))
    desk.enrol(*(f"e{number}" for number in range(90)), role="evaluator")
    assert desk.coordinator.state.limit == 100
    desk.enrol("e1")  # it trains from now on
    assert desk.coordinator.state.roster.trainers == 1


def test_the_size_of_a_task_is_what_its_steps_used() -> None:
    assert size_of(30, None) == 30
    assert size_of(30, Measured(seconds=1.0)) == 30
    assert size_of(30, Measured(samples=64)) == 64


@pytest.mark.parametrize("more", [-1, 0, 1, 7])
def test_a_claim_of_more_steps_than_a_task_has_sets_no_other_pace(more: int) -> None:
    algorithm = FedBuff(
        buffer=2, aggregator=FedNova(), client=LocalSGD(epochs=3)
    ).build(SPEC)
    own = algorithm.clients.all[0]
    most = algorithm.config.most_steps(5, 0, own)
    update = Arrived(None, 0, 5, None, most + more, "ann")
    found = efforts(algorithm, update, own)
    assert found["work"] == (most + more) / own.step_count(5)
    assert found["effort"] == own.effort(own.step_count(5))
    assert found["pace"] == own.effort(min(most + more, most))


def test_a_farewell_took_no_steps_and_says_nothing_of_them() -> None:
    algorithm = FedBuff(buffer=2, aggregator=FedNova()).build(SPEC)
    farewell = Arrived(None, 0, 5, None, 0, "ann")
    assert efforts(algorithm, farewell, algorithm.clients.all[0]) == {}
