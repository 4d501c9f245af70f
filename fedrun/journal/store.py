"""The protocol of a run's storage.

SQLite with segment files implements it. Where several servers share the work, a
database and an object store could.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from fedrun.journal.codec import Row

Facts = Mapping[str, str | None]  # small ones, by key; None removes one
NO_FACTS: Facts = MappingProxyType({})


class Entry(NamedTuple):
    """One record with its number."""

    number: int
    record: Row


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
    """A row that is not as it was written."""

    number: int
    reason: str  # empty: there is no such row
    at_end: bool  # nothing sound comes after it


class Loss(NamedTuple):
    """Records that are not here any more, or not as they were written."""

    first: int
    last: int
    reason: str
    at_end: bool = False  # wrong bytes at the very end: a start may cut them off


class Store(Protocol):
    """Numbered records; an append is one durable transaction."""

    def append(self, records: Sequence[Row], facts: Facts = NO_FACTS) -> int:
        """Makes records and facts durable, all or none; returns the last number."""

    def entries(self, after: int = 0, *, payloads: bool = True) -> Iterator[Entry]:
        """The records behind a number, in order.

        Without payloads they are read faster, and not checked.

        Raises:
            CorruptJournalError: a record is damaged or missing.
        """

    def find(self, kind: str) -> list[Entry]:
        """All records of a kind."""

    @property
    def last(self) -> int:
        """The number of the newest record; 0 if there is none."""

    def loss(self) -> Loss | None:
        """Records that were durable and are not here, behind the last one."""

    @property
    def volatile(self) -> bool:
        """Whether nothing was promised: such a run never waits for the disk."""

    def damage(self, after: int = 0, *, unreadable: bool = False) -> Damage | None:
        """The first damaged row behind a number.

        A payload that cannot be read is damage if ``unreadable``; else an error.
        """

    def hide(self, number: int) -> None:
        """Reads this record and all behind it no more; they are to be cut."""

    def cut(
        self, number: int, records: Sequence[Row] = (), facts: Facts = NO_FACTS
    ) -> int:
        """Replaces a record and all behind it; returns the last number.

        All of it happens, or nothing. Payloads of earlier records whose segment is gone
        are marked as dropped.
        """

    def forget_unreadable(self) -> int:
        """Marks payloads whose segment is gone as dropped; returns how many."""

    def copy_end(self, number: int, target: Path) -> None:
        """Copies this record and all behind it, as they are, with their payloads."""

    def drop_payloads(self, up_to: int) -> None:
        """Drops the payloads of the records up to this one."""

    def note(self, key: str, value: str | None) -> None:
        """Keeps a small fact beside the records; None removes it."""

    def noted(self, key: str) -> str | None:
        """A small fact; None if there is none of this key."""

    def payload_bytes(self) -> int:
        """The bytes of all payloads that are kept."""

    def first_payload(self) -> int:
        """The number behind which every payload is still there."""

    def close(self) -> None:
        """Releases the files."""
