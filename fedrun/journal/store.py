"""Records as rows of a journal and back, and what the storage of a run returns."""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from fedcore.coordinator import events
from fedcore.coordinator.actions import Action, Persist
from fedcore.coordinator.events import Record
from fedcore.labels import counts_array, counts_list
from fedcore.measured import read_measured
from fedcore.protocol import Verdict
from fedcore.text import brief
from fedcore.typing import Bytes, Seconds
from fedrun.fields import wrong_field
from fedrun.json_text import read_json

# ------------ converts records to rows and back: a kind, a body in JSON, and a payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The config of a run: its first record, and another one after each change."""

    at: Seconds
    run_id: str
    seed: int
    config: Mapping[str, Any]  # the whole config, as JSON
    spec: str  # the model's description
    epoch: str  # of the beginning
    origin: str  # digest of version 0
    versions: Mapping[str, str]  # of the software that wrote it


Row = Configured | Record

_CLASSES: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(Row)}
KINDS = frozenset(_CLASSES)  # of records, as `journal show` names them

_VERDICTS = {verdict.value: verdict for verdict in Verdict}
_FIELDS = {cls: [field.name for field in fields(cls)] for cls in _CLASSES.values()}
_encode = json.JSONEncoder(separators=(",", ":")).encode


def facts_of(record: Row) -> dict[str, Any]:
    """Returns the fields of a record without its payload, ready for JSON."""
    facts = {name: getattr(record, name) for name in _FIELDS[type(record)]}
    facts.pop("payload", None)
    if "values" in facts:
        facts["values"] = dict(facts["values"])
    if "counts" in facts:
        facts["counts"] = counts_list(facts["counts"])
    if facts.get("task") is True:
        del facts["task"]
    # As earlier versions wrote it, where nothing is known:
    if facts.get("text") == "":
        del facts["text"]
    if facts.get("measured", ...) is None:
        del facts["measured"]
    if facts.get("metrics", ...) is None:
        del facts["metrics"]
    if facts.get("planned", ...) is None:
        del facts["planned"], facts["counts"]
    return facts


def to_row(record: Row) -> tuple[str, str, Bytes]:
    """Returns the kind, JSON body and payload of a record."""
    body, payload = facts_of(record), getattr(record, "payload", b"")
    return type(record).__name__, _encode(body), payload


def from_row(kind: str, body: str, payload: Bytes) -> Row:
    """Returns the record that a row holds.

    Raises:
        ValueError: it is not a record of this program.
    """
    if kind not in _CLASSES:
        raise ValueError(f"unknown kind of record {brief(kind)!r}")
    values = read_json(body)
    if not isinstance(values, dict):
        raise ValueError("its body is no JSON object")
    cls = _CLASSES[kind]
    if "payload" in _FIELDS[cls]:
        values["payload"] = payload
    try:
        if cls is events.Decided:
            given = values["verdict"]
            values["verdict"] = _VERDICTS.get(given, given)
            values["measured"] = read_measured(values.get("measured"))
        if "counts" in values:
            values["counts"] = counts_array(values["counts"])
        record: Row = cls(**values)
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"its fields are wrong: {brief(str(error))}") from error
    if wrong := wrong_field(record):
        raise ValueError(wrong)
    return record


def checksum(number: int, kind: str, body: str, payload: Bytes) -> int:
    """Returns the CRC-32 of a row's number, kind, body and payload."""
    return zlib.crc32(payload, zlib.crc32(f"{number}\0{kind}\0{body}\0".encode()))


# ----------- what the storage of a run returns: records, rows, and findings about them


Facts = Mapping[str, str | None]  # short texts beside the records; None removes one
NO_FACTS: Facts = MappingProxyType({})


class Entry(NamedTuple):
    """One record with its number."""

    number: int
    record: Row


def split_actions(actions: Iterable[Action]) -> tuple[list[Record], list[Action]]:
    """Splits actions into the records to persist and the actions to carry out."""
    records: list[Record] = []
    others: list[Action] = []
    for action in actions:
        if isinstance(action, Persist):
            records.append(action.record)
        else:
            others.append(action)
    return records, others


class WholeRow(NamedTuple):
    """A row with its payload, as it is stored."""

    number: int
    kind: str
    body: str
    payload: bytes | None
    size: int
    check: int
    dropped: bool


class Damage(NamedTuple):
    """A row that differs from what was written."""

    number: int
    reason: str  # empty: there is no such row
    at_end: bool  # nothing sound comes after it


class Spoilt(NamedTuple):
    """A damaged or missing row, and whether the run can go on without its payload."""

    number: int
    reason: str  # empty: there is no such row
    tells: bool  # only the payload is wrong; what the row says can be read


class Loss(NamedTuple):
    """Records that are missing, or differ from what was written."""

    first: int
    last: int
    reason: str
    at_end: bool = False  # wrong bytes at the very end: a start may cut them off
