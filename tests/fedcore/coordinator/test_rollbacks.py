"""How a server finds out that it was set back, and what it does not believe."""

from typing import Any

import pytest

from fedcore.compressors import TopK
from fedcore.coordinator.actions import SendReply
from fedcore.coordinator.events import HistoryForked, StateRolledBack, Unproved
from fedcore.protocol import (
    Abandoned,
    Answer,
    Held,
    Settled,
    Verdict,
)
from fedcore.recipes import FedBuff
from tests.fedcore.coordinator.desk import EPOCH, FRESH, Desk

OTHER = "d" * 16
DIGEST = "0" * 32


@pytest.fixture
def desk() -> Desk:
    made = Desk(FedBuff(buffer=2, staleness_limit=3))
    made.enrol("a", "b")
    made.push("a", 1)
    return made


def proved(desk: Desk, claim: Any, cid: str = "a", epoch: str = EPOCH) -> Any:
    """A claim with the proof that its server once gave this client."""
    proofs = desk.proofs
    match claim:
        case Held():
            return claim._replace(proof=proofs.version(epoch, claim.version))
        case Settled():
            proof = proofs.verdict(epoch, cid, claim.seq, claim.verdict)
            return claim._replace(proof=proof)
        case _:
            return (Abandoned(claim[0].epoch, proofs.departure(claim[0].epoch)),)


CLAIMS: list[dict[str, Any]] = [
    {"settled": Settled(2, Verdict.ACCEPTED)},
    {"settled": Settled(1, Verdict.REJECTED_STALE)},
    {"held": Held(EPOCH, 7, DIGEST)},
    {"held": Held(EPOCH, 7, "")},
    {"abandoned": (Abandoned(EPOCH),), "epoch": OTHER, "held": None},
]
IDS = [
    "a later verdict",
    "another verdict",
    "a later version",
    "a version that was dropped",
    "a history that was left",
]


def with_proofs(desk: Desk, claim: dict[str, Any], **how: str) -> dict[str, Any]:
    told = {k: v for k, v in claim.items() if v and k != "epoch"}
    return {**claim, **{k: proved(desk, v, **how) for k, v in told.items()}}


@pytest.mark.parametrize("claim", CLAIMS, ids=IDS)
def test_a_claim_of_a_later_state_is_to_be_proved_and_changes_nothing(
    desk: Desk, claim: dict[str, Any]
) -> None:
    desk.pull("a", **claim)
    assert desk.refused == [Answer.PROVE]
    assert not desk.records(HistoryForked)
    assert desk.coordinator.state.epoch == EPOCH
    assert not desk.coordinator.rounds.leases.waiting


@pytest.mark.parametrize("claim", CLAIMS, ids=IDS)
def test_a_proved_claim_opens_a_new_history(desk: Desk, claim: dict[str, Any]) -> None:
    desk.pull("a", **with_proofs(desk, claim))
    (opened,) = desk.records(HistoryForked)
    assert opened.epoch == desk.coordinator.state.epoch == FRESH
    assert opened.reason == "a knows a later state than this one"
    assert desk.reply.patch.epoch == FRESH


@pytest.mark.parametrize("claim", CLAIMS, ids=IDS)
def test_a_proof_of_another_run_proves_nothing(
    desk: Desk, claim: dict[str, Any]
) -> None:
    other = Desk(FedBuff(buffer=2), secret=b"another runs one")
    desk.pull("a", **with_proofs(other, claim))
    assert desk.refused == [Answer.PROVE]


@pytest.mark.parametrize("claim", CLAIMS, ids=IDS)
def test_without_a_secret_nothing_is_proved(claim: dict[str, Any]) -> None:
    desk = Desk(FedBuff(buffer=2), secret=None)
    desk.enrol("a")
    desk.push("a", 1)
    desk.pull("a", **with_proofs(desk, claim))
    assert desk.refused == [Answer.PROVE]


@pytest.mark.parametrize("claim", CLAIMS[:4], ids=IDS[:4])
def test_a_proof_of_an_older_history_proves_nothing_in_this_one(
    desk: Desk, claim: dict[str, Any]
) -> None:
    desk.pull("a", **with_proofs(desk, claim, epoch=OTHER))
    assert desk.refused == [Answer.PROVE]


@pytest.mark.parametrize("claim", CLAIMS[:2], ids=IDS[:2])
def test_the_verdict_of_another_client_proves_nothing(
    desk: Desk, claim: dict[str, Any]
) -> None:
    desk.pull("a", **with_proofs(desk, claim, cid="b"))
    assert desk.refused == [Answer.PROVE]


@pytest.mark.parametrize(
    ("settled", "shown"),
    [
        (Settled(3, Verdict.ACCEPTED), Settled(2, Verdict.ACCEPTED)),
        (Settled(2, Verdict.DISCARDED), Settled(2, Verdict.ACCEPTED)),
    ],
    ids=["number", "verdict"],
)
def test_the_proof_of_one_verdict_does_not_prove_another(
    desk: Desk, settled: Settled, shown: Settled
) -> None:
    proof = proved(desk, shown).proof
    desk.pull("a", settled=settled._replace(proof=proof))
    assert desk.refused == [Answer.PROVE]


def test_the_proof_of_one_version_does_not_prove_another(desk: Desk) -> None:
    proof = desk.proofs.version(EPOCH, 6)
    desk.pull("a", held=Held(EPOCH, 7, DIGEST, proof))
    assert desk.refused == [Answer.PROVE]


def test_one_proof_among_many_claims_is_enough(desk: Desk) -> None:
    held = proved(desk, Held(EPOCH, 7, DIGEST))
    desk.pull("a", held=held, settled=Settled(9, Verdict.ACCEPTED))
    assert desk.records(HistoryForked)


@pytest.mark.parametrize(
    "claim", [{"settled": Settled(2, Verdict.ACCEPTED)}, {"base": 7}]
)
def test_a_push_that_claims_a_later_state_is_to_pull_first(
    desk: Desk, claim: dict[str, Any]
) -> None:
    desk.push("a", 3, **claim)
    assert desk.ack.answer == Answer.OTHER_EPOCH
    assert desk.records(HistoryForked) == []
    assert desk.coordinator.unproved == 1
    desk.push("a", 2)
    assert desk.ack.answer == Verdict.ACCEPTED


@pytest.mark.parametrize("left", [OTHER, FRESH])
def test_a_history_that_was_left_for_this_one_is_no_claim(
    desk: Desk, left: str
) -> None:
    desk.pull("a", abandoned=(Abandoned(left),))
    assert desk.refused == []
    assert desk.given == ["a"]


def test_claims_about_another_history_are_no_claims(desk: Desk) -> None:
    desk.pull("a", epoch=FRESH, settled=Settled(9, Verdict.ACCEPTED))
    assert not desk.records(HistoryForked)
    assert desk.reply.patch.kind == "full"
    assert desk.reply.task is None
    assert desk.coordinator.unproved == 0


def test_an_ended_run_finds_out_too(desk: Desk) -> None:
    desk.coordinator.state.closed = "over"
    desk.pull("a", held=Held(EPOCH, 7, DIGEST))
    assert desk.refused == [Answer.PROVE]
    desk.pull("a", held=proved(desk, Held(EPOCH, 7, DIGEST)))
    assert desk.records(HistoryForked)
    assert desk.reply.done


def test_refused_claims_are_noted_ever_more_seldom(desk: Desk) -> None:
    counts = []
    for _ in range(100):
        desk.pull("a", settled=Settled(9, Verdict.ACCEPTED))
        counts += [(r.cid, r.count) for r in desk.records(Unproved)]
    assert desk.coordinator.unproved == 100
    assert counts == [("a", n) for n in (1, 1, 2, 4, 8, 16, 32)]


# --------------------------------------------------------------- what leaves a server


def test_a_version_travels_with_its_proof(desk: Desk) -> None:
    desk.pull("b", held=None)
    assert desk.reply.proof == desk.proofs.version(EPOCH, 0) != 0
    desk.push("a", 2)
    desk.pull("b", held=None)
    assert desk.reply.proof == desk.proofs.version(EPOCH, 1)


def test_a_version_that_is_reached_by_its_message_has_its_proof_too() -> None:
    desk = Desk(FedBuff(buffer=1, downlink=TopK(ratio=0.25)))
    desk.enrol("a")
    published = desk.coordinator.state.published
    held = Held(EPOCH, 0, published.digest)
    desk.push("a", 1)
    desk.pull("a", held=held)
    assert desk.reply.patch.kind == "replay"
    assert desk.reply.proof == desk.proofs.version(EPOCH, 1)


def test_whoever_holds_the_version_has_its_proof_already(desk: Desk) -> None:
    desk.pull("b")
    assert desk.reply.patch.kind == "none"
    assert desk.reply.proof == 0


def test_a_verdict_travels_with_its_proof_first_and_again(desk: Desk) -> None:
    want = desk.proofs.verdict(EPOCH, "a", 2, Verdict.ACCEPTED)
    for _ in range(2):
        desk.push("a", 2, settled=Settled(1, Verdict.ACCEPTED))
        assert desk.ack.proof == want
    desk.pull("a", settled=Settled(1, Verdict.ACCEPTED))
    assert desk.reply.receipt.proof == want


def test_an_answer_without_a_verdict_proves_nothing(desk: Desk) -> None:
    desk.push("a", 2, epoch=OTHER)
    assert (desk.ack.answer, desk.ack.proof) == (Answer.OTHER_EPOCH, 0)


def test_a_verdict_told_to_another_history_is_proved_in_that_one(desk: Desk) -> None:
    """Its client will claim it there, should the server be set back to it."""
    desk.push("a", 1, epoch=OTHER, settled=Settled())
    assert desk.ack.proof == desk.proofs.verdict(OTHER, "a", 1, Verdict.ACCEPTED)


def test_who_is_led_into_another_history_gets_proof_of_the_one_it_left(
    desk: Desk,
) -> None:
    desk.pull("a", epoch=OTHER)
    reply = desk.reply
    assert reply.left == desk.proofs.departure(OTHER)
    assert reply.proof == desk.proofs.version(EPOCH, 0)
    receipt = desk.proofs.verdict(EPOCH, "a", 1, Verdict.ACCEPTED)
    assert reply.receipt.proof == receipt
    desk.pull("b")
    assert desk.reply.left == 0


def test_pulls_that_wait_are_led_into_the_new_history() -> None:
    desk = Desk(FedBuff(buffer=1, concurrency=1))
    desk.enrol("a", "b", "c")
    desk.pull("a")
    desk.pull("b")
    desk.pull("c")
    assert desk.given == []
    event = StateRolledBack(at=1.0, fresh_epoch=FRESH, reason="restored")
    desk.feed(event)
    replies = [a for a in desk.actions if isinstance(a, SendReply)]
    assert [a.cid for a in replies] == ["b", "c"]
    for action in replies:
        reply = action.reply
        assert reply.task is None
        assert reply.patch.epoch == FRESH
        assert reply.patch.kind == "full"
        assert reply.left == desk.proofs.departure(EPOCH)
        assert reply.proof == desk.proofs.version(FRESH, 0)
    assert not desk.coordinator.rounds.leases.waiting


def test_no_proof_lies_in_the_state_of_the_server(desk: Desk) -> None:
    scalars, _ = desk.coordinator.state.dump()
    made = desk.proofs.verdict(EPOCH, "a", 1, Verdict.ACCEPTED)
    assert str(made) not in str(scalars)
    row = desk.coordinator.state.clients["a"]
    assert type(row).from_json(row.to_json()) == row


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, None),
        ({"settled": Settled()}, 1),
        ({"epoch": OTHER}, 1),
        ({"epoch": FRESH}, 1),
    ],
    ids=["known", "not known", "another history", "one more"],
)
def test_who_knows_its_verdict_is_not_told_it_again(
    desk: Desk, changes: dict[str, Any], told: int | None
) -> None:
    desk.pull("a", **changes)
    receipt = desk.reply.receipt
    assert (receipt and receipt.seq) == told
