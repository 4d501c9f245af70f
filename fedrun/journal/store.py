"""The seam between a run and its storage.

SQLite with segment files takes this place by default; a database and an object
store could, where several servers share the work.
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
    """A row as it is kept, wherever its payload lies."""

    number: int
    kind: str
    body: str
    payload: bytes | None
    size: int
    check: int
    dropped: bool


class Damage(NamedTuple):
    """A row that does not say what was written."""

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
        """Makes these records and facts durable, all or none; the last one's number."""

    def entries(self, after: int = 0, *, payloads: bool = True) -> Iterator[Entry]:
        """The records behind a number, in order; a damaged one raises.

        Without their payloads they are read faster, and not checked.
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
        """This record and all behind it are not read any more; they are to be cut."""

    def cut(
        self, number: int, records: Sequence[Row] = (), facts: Facts = NO_FACTS
    ) -> int:
        """Puts records in the place of this one and all behind it; the last's number.

        All of it happens, or nothing. Payloads before it whose segment is gone are as
        those that were dropped.
        """

    def forget_unreadable(self) -> int:
        """Payloads whose segment is gone are as those that were dropped; how many."""

    def copy_end(self, number: int, target: Path) -> None:
        """Copies this record and all behind it, as they are, with their payloads."""

    def drop_payloads(self, up_to: int) -> None:
        """The payloads of these records are not needed any more."""

    def note(self, key: str, value: str | None) -> None:
        """Keeps a small fact beside the records; None removes it."""

    def noted(self, key: str) -> str | None:
        """A small fact."""

    def payload_bytes(self) -> int:
        """Bytes of all payloads that are kept."""

    def first_payload(self) -> int:
        """The number behind which every payload is still there."""

    def close(self) -> None:
        """Releases the files."""
