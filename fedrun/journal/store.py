"""What the storage of a run returns: records, rows, and findings about them."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from fedcore.coordinator.actions import Action, Persist
from fedcore.coordinator.records import Record
from fedrun.journal.codec import Row

Facts = Mapping[str, str | None]  # short texts beside the records; None removes one
NO_FACTS: Facts = MappingProxyType({})


class Entry(NamedTuple):
    """One record with its number."""

    number: int
    record: Row


def divided(actions: Iterable[Action]) -> tuple[list[Record], list[Action]]:
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
