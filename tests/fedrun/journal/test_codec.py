"""Rows: every kind of record comes back as it was, and no other does."""

import json
import math
import re
import zlib
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from fedcore.coordinator import events
from fedcore.coordinator.events import Decided, Evaluated, Leased, Stepped
from fedcore.protocol import Verdict
from fedrun.fields import wrong_field
from fedrun.journal.store import KINDS, Configured, Row, checksum, from_row, to_row

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
    """A record of this class, whose texts are the names of their fields."""
    hints = get_type_hints(cls)
    return cls(**{f.name: value_of(hints[f.name], f.name) for f in fields(cls)})


def value_of(hint: Any, name: str) -> Any:
    """A value of a field's type."""
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if name == "counts":
        return np.array([3, 4])
    return {float: 1.5, int: 2, str: name}.get(hint, 3)


WHOLE = (Decided, Stepped, Configured, Evaluated)
OTHERS = [
    sample(cls)
    for name, cls in vars(events).items()
    if not name.startswith("_")
    and hasattr(cls, "durable")
    and cls not in WHOLE
    and not cls.__subclasses__()
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


JUNK: list[Any] = [
    None, True, 7, -1, 2**64, 10**400, -1.5, math.nan, math.inf, "", "7", "\ud800", [],
    [1, "a"], [[1], [2]], [-1], [2**70], {}, {"a": "b"}, {"a": None},
]  # fmt: skip


@pytest.mark.parametrize("record", [DECIDED, STEPPED, CONFIGURED, WRITTEN, *OTHERS])
def test_a_field_of_another_type_is_told_by_name(record: Row) -> None:
    kind, body, payload = to_row(record)
    values = json.loads(body)
    for name in values:
        for junk in JUNK:
            changed = json.dumps({**values, name: junk})
            try:
                back = from_row(kind, changed, payload)
            except ValueError as error:
                told = str(error)
            else:  # it is what this field can hold
                told = wrong_field(back)
                assert told == ""
            assert len(told) < 400


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"at": math.nan}, "at cannot be nan"),
        ({"at": "1"}, "at cannot be str"),
        ({"seq": 2**64}, "seq cannot be 18446744073709551616"),
        ({"seq": 10**400}, "seq cannot be int"),
        ({"weight": math.inf}, "weight cannot be inf"),
        ({"cid": "\ud800"}, "surrogates not allowed"),
        ({"cid": None}, "cid cannot be None"),
        ({"verdict": "fine"}, "verdict cannot be str"),
        ({"verdict": [1]}, "its fields are wrong: unhashable type"),
        ({"counts": [1, -1]}, "label counts"),
        ({"counts": [1.5]}, "label counts"),
        ({"counts": "many"}, "label counts"),
        ({"measured": 5}, "its fields are wrong"),
        ({"measured": ["many", None, None, None]}, "measured cannot be Measured"),
        ({"measured": [1, None, None, ["m", "many", *[None] * 5]]}, "measured cannot"),
        ({"metrics": {"loss": "low"}}, "metrics cannot be dict"),
        ({"metrics": [1]}, "metrics cannot be list"),
        ({"more": 1}, "unexpected keyword argument 'more'"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], why: str) -> None:
    kind, body, payload = to_row(DECIDED)
    with pytest.raises(ValueError, match=re.escape(why)):
        from_row(kind, json.dumps(json.loads(body) | changes), payload)


@pytest.mark.parametrize(
    "body",
    ["", "[1]", "7", "null", "{", "[" * 100_000, '{"a":' * 500 + "1" + "}" * 500],
)
def test_a_body_that_is_no_flat_object_is_none(body: str) -> None:
    for kind in KINDS:
        with pytest.raises(ValueError, match=r"JSON|Expecting|more than|its fields"):
            from_row(kind, body, b"")


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
        '{"at":1.5,"cid":"cid","version":2,"task":"train","patch":"patch","nbytes":2}'
    )
    assert to_row(STEPPED)[2] == b"message"
    assert "payload" not in to_row(STEPPED)[1]
    assert json.loads(to_row(DECIDED)[1])["verdict"] == Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("record", "rest"),
    [
        (events.Paused(at=7.0, by="root", reason="why"), ""),
        (events.Unpaused(at=7.0, by="root", reason="why"), ""),
        (events.Evicted(at=7.0, by="root", reason="why", name="a"), ',"name":"a"'),
        (events.Readmitted(at=7.0, by="root", reason="why", name="a"), ',"name":"a"'),
        (
            events.SnapshotOrdered(at=7.0, by="root", reason="why", version=3),
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
