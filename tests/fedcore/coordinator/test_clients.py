"""A client's row at the server."""

import json

from fedcore.coordinator.members import ClientRow
from fedcore.protocol import HISTORY, Receipt, Verdict


def row(messages: int) -> ClientRow:
    """Of a client of whose messages every third one was rejected."""
    made = ClientRow("cid", "ann", "trainer")
    for seq in range(1, messages + 1):
        verdict = Verdict.ACCEPTED if seq % 3 else Verdict.REJECTED_STALE
        made.store_verdict(
            Receipt(seq, f"{seq:032x}", verdict, 0.5, seq), f"reason {seq}"
        )
    return made


def test_a_row_holds_the_newest_receipt_with_its_reason() -> None:
    assert (row(0).seq, row(0).receipt) == (0, None)
    made = row(6)
    assert (made.seq, made.reason) == (6, "reason 6")
    assert made.receipt == Receipt(6, f"{6:032x}", Verdict.REJECTED_STALE, 0.5, 6)


def test_a_row_remembers_the_last_sixteen_messages_that_counted() -> None:
    accepted = [seq for seq in range(1, 100) if seq % 3]
    assert HISTORY == 16
    assert list(row(4).accepted) == [1, 2, 4]
    assert list(row(99).accepted) == accepted[-16:]


def test_a_row_comes_back_from_a_snapshot_and_forgets_as_before() -> None:
    for left in (False, True):
        made = row(40)
        made.left = left
        again = ClientRow.from_json(json.loads(json.dumps(made.to_json())))
        assert again == made
        for each in (made, again):
            each.store_verdict(Receipt(41, "d", Verdict.ACCEPTED, 1.0, 41), "")
        assert again.accepted == made.accepted
        assert len(again.accepted) == HISTORY
    fresh = ClientRow("cid", "ann", "evaluator")
    assert ClientRow.from_json(json.loads(json.dumps(fresh.to_json()))) == fresh
