"""Rows: every kind of record comes back as it was, and no other does."""

import json
import zlib
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator import records
from fedcore.coordinator.records import Decided, Evaluated, Leased, Stepped
from fedcore.protocol import Verdict
from fedrun.journal.codec import KINDS, Configured, Row, checksum, from_row, to_row

DECIDED = Decided(
    at=1.5, cid="ann", seq=3, digest="d", base=1, staleness=2,
    verdict=Verdict.ACCEPTED, weight=0.5, reason="", samples=4, steps=5,
    update_norm=0.25, memory_norm=0.75, oldest=1, counts=np.array([1, 2]), loss=0.1,
    nbytes=6, payload=b"update",
)  # fmt: skip
STEPPED = Stepped(
    at=2.0, version=3, reason="buffer", count=4, samples=5.0, digest="e",
    gap_norm=0.5, nbytes=7, payload=b"message",
)  # fmt: skip
CONFIGURED = Configured(
    at=0.0, run_id="run", seed=1, config={"a": [1]}, spec="{}", epoch="f" * 16,
    origin="o", versions={"numpy": "2"},
)  # fmt: skip
MEASURED = Evaluated(at=1.0, cid="ann", version=2, values={"loss": 0.5}, samples=3)
WRITTEN = replace(MEASURED, text="def f():\n    return 1")


def sample(cls: Any) -> Any:
    """A record of this class."""
    values: dict[str, Any] = {field.name: field.name for field in fields(cls)}
    if "counts" in values:
        values["counts"] = np.array([3, 4])
    return cls(**values)


WHOLE = (Decided, Stepped, Configured, Evaluated)
OTHERS = [
    sample(cls)
    for name, cls in vars(records).items()
    if not name.startswith("_") and hasattr(cls, "durable") and cls not in WHOLE
]


@pytest.mark.parametrize(
    "record",
    [
        DECIDED,
        replace(DECIDED, counts=None, oldest=None, loss=None, payload=b""),
        STEPPED,
        CONFIGURED,
        MEASURED,
        WRITTEN,
        *OTHERS,
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_comes_back_as_it_was(record: Row) -> None:
    kind, body, payload = to_row(record)
    assert kind == type(record).__name__
    back = from_row(kind, body, payload)
    assert type(back) is type(record)
    assert plain(back) == plain(record)


def plain(record: Row) -> dict[str, Any]:
    """Its fields, with label counts as a list, since arrays are not just equal."""
    facts = {field.name: getattr(record, field.name) for field in fields(record)}
    if facts.get("counts") is not None:
        assert facts["counts"].dtype == np.int64
        facts["counts"] = facts["counts"].tolist()
    return facts


def test_every_kind_of_record_can_be_kept() -> None:
    known = {type(each).__name__ for each in (*OTHERS, DECIDED, STEPPED)}
    assert known | {"Configured", "Evaluated"} == KINDS


def test_anyone_can_read_a_body() -> None:
    kind, body, payload = to_row(replace(sample(Leased), planned=None, counts=None))
    assert (kind, payload) == ("Leased", b"")
    assert body == (
        '{"at":"at","cid":"cid","version":"version","task":"task","patch":"patch",'
        '"nbytes":"nbytes"}'
    )
    assert to_row(STEPPED)[2] == b"message"
    assert "payload" not in to_row(STEPPED)[1]
    assert json.loads(to_row(DECIDED)[1])["verdict"] == Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("record", "rest"),
    [
        (records.Paused(at=7.0, by="root", reason="why"), ""),
        (records.Unpaused(at=7.0, by="root", reason="why"), ""),
        (records.Evicted(at=7.0, by="root", reason="why", name="a"), ',"name":"a"'),
        (records.Readmitted(at=7.0, by="root", reason="why", name="a"), ',"name":"a"'),
        (
            records.SnapshotOrdered(at=7.0, by="root", reason="why", version=3),
            ',"version":3',
        ),
    ],
    ids=lambda each: type(each).__name__ if each else "",
)
def test_acts_are_written_as_earlier_programs_wrote_them(
    record: Row, rest: str
) -> None:
    body = f'{{"at":7.0,"by":"root","reason":"why"{rest}}}'
    assert to_row(record) == (type(record).__name__, body, b"")
    assert from_row(type(record).__name__, body, b"") == record


def test_values_may_be_any_mapping() -> None:
    frozen = replace(MEASURED, values=MappingProxyType({"loss": 0.5}))
    assert to_row(frozen) == to_row(MEASURED)


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("Dreamt", "{}", "unknown kind of record 'Dreamt'"),
        ("Lost", "{", "Expecting"),
        ("Lost", '{"at":1}', "missing 1 required"),
        ("Lost", '{"at":1,"cid":"a","more":2}', "unexpected keyword"),
    ],
)
def test_what_is_no_record_is_told(kind: str, body: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_row(kind, body, b"")


def test_a_checksum_covers_all_that_a_row_says() -> None:
    whole = zlib.crc32(b"7\0Lost\0{}\0bytes")
    assert checksum(7, "Lost", "{}", b"bytes") == whole
