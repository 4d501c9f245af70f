"""Tallies: many leases and decisions in one record, which come back one by one."""

import base64
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator.events import Decided, Leased, Stepped
from fedcore.labels import counts_list
from fedcore.protocol import Verdict
from fedrun.journal import tally
from fedrun.journal.store import from_row, to_row
from fedrun.journal.tally import (
    NO_VERDICT,
    PATCH_CODES,
    VERDICT_CODES,
    Tally,
    TallyRow,
    columns_of,
    in_order,
    unpack_records,
)
from tests.fedrun.journal.test_codec import CONFIGURED, STEPPED

CIDS = ("ann", "bob")


def row(**changes: Any) -> TallyRow:
    """A lease and its decision, every column of which is another number."""
    told = TallyRow(
        client=1,
        leased=2.25,
        at=3.5,
        seq=4,
        base=5,
        staleness=6,
        patch=PATCH_CODES["overwrite"],
        down=1 << 40,
        verdict=VERDICT_CODES[Verdict.ACCEPTED],
        weight=0.125,
        samples=7,
        steps=8,
        update_norm=0.5,
        memory_norm=0.75,
        loss=0.25,
        up=1 << 41,
    )
    return told._replace(**changes)


def taken(*rows: TallyRow) -> Any:
    """These rows, as a record."""
    one = Tally()
    for each in rows:
        one.add(each)
    assert len(one) == len(rows)
    record = one.take(9.0)
    assert len(one) == 0
    return record


LEASED = Leased(
    at=2.25, cid="bob", version=5, task="train", patch="overwrite", nbytes=1 << 40
)
DECIDED = Decided(
    at=3.5, cid="bob", seq=4, digest="", base=5, staleness=6,
    verdict=Verdict.ACCEPTED, weight=0.125, reason="", samples=7, steps=8,
    update_norm=0.5, memory_norm=0.75, oldest=None, counts=None, loss=0.25,
    nbytes=1 << 41, payload=b"",
)  # fmt: skip


def test_rows_come_back_as_the_records_that_they_stand_for() -> None:
    record = taken(row(), row(client=0, seq=9))
    assert (record.at, record.count) == (9.0, 2)
    assert from_row(*to_row(record)) == record
    assert list(unpack_records(record, CIDS)) == [
        LEASED,
        DECIDED,
        replace(LEASED, cid="ann"),
        replace(DECIDED, cid="ann", seq=9),
    ]


def test_a_client_that_was_lost_has_no_verdict() -> None:
    record = taken(row(verdict=NO_VERDICT), row())
    assert list(unpack_records(record, CIDS)) == [LEASED, LEASED, DECIDED]


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_was_not_told(loss: float) -> None:
    [_, decided] = unpack_records(taken(row(loss=loss)), CIDS)
    assert decided == replace(DECIDED, loss=None)


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_a_code(verdict: Verdict) -> None:
    [_, decided] = unpack_records(taken(row(verdict=VERDICT_CODES[verdict])), CIDS)
    assert decided == replace(DECIDED, verdict=verdict)


@pytest.mark.parametrize("patch", ["none", "replay", "overwrite", "full"])
def test_every_patch_has_a_code(patch: str) -> None:
    [leased, _] = unpack_records(taken(row(patch=PATCH_CODES[patch])), CIDS)
    assert leased == replace(LEASED, patch=patch)


def test_codes_stay_what_they_are_on_disk() -> None:
    assert PATCH_CODES == {"none": 0, "replay": 1, "overwrite": 2, "full": 3}
    assert [VERDICT_CODES[each] for each in Verdict] == list(range(len(Verdict)))
    assert NO_VERDICT == 255


def test_columns_lie_behind_each_other() -> None:
    record = taken(row(), row(client=0))
    columns = columns_of(record)
    assert tuple(columns) == tally._TYPE.names == TallyRow._fields
    assert columns["client"].tolist() == [1, 0]
    assert columns["up"].tolist() == [1 << 41, 1 << 41]
    packed = zlib.decompress(base64.b64decode(record.columns))
    assert packed[:8] == np.array([1, 0], "<i4").tobytes()
    assert packed[8:24] == np.array([2.25, 2.25], "<f8").tobytes()
    assert len(packed) == 2 * (4 + 8 + 8 + 4 * 3 + 1 + 8 + 1 + 8 + 4 * 5 + 8)


def test_columns_of_another_length_are_damaged() -> None:
    record = taken(row(), row())
    with pytest.raises(ValueError, match="78 bytes too many in the columns"):
        columns_of(replace(record, count=1))
    with pytest.raises(ValueError, match="buffer"):
        columns_of(replace(record, count=3))


def test_nothing_is_an_empty_record() -> None:
    record = taken()
    assert record.count == 0
    assert list(unpack_records(record, CIDS)) == []


def test_records_are_told_in_the_order_of_time() -> None:
    early, late = replace(STEPPED, at=1.0), replace(STEPPED, at=3.5)
    again = replace(CONFIGURED, at=3.5)
    records = [late, taken(row(), row(leased=3.5)), again, early]
    assert in_order(records, CIDS) == [
        early,
        LEASED,
        again,
        DECIDED,  # an update comes before the version that it makes
        DECIDED,
        late,
        replace(LEASED, at=3.5),  # which comes before whoever is given it
    ]
    assert isinstance(late, Stepped)


def test_counts_of_labels_come_back_with_their_updates() -> None:
    one = Tally()
    for counts in (None, np.array([3, 0, 4]), np.array([5]), np.zeros(300, np.int64)):
        one.add(row(), counts)
    found = [
        counts_list(each.counts)
        for each in unpack_records(one.take(9.0), CIDS)
        if isinstance(each, Decided)
    ]
    assert found == [None, [3, 0, 4], [5, 0, 0], None]
    one.add(row())
    assert "counts" not in columns_of(one.take(9.0))  # of the next record, nothing
