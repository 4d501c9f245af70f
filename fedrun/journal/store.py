"""The seam between a run and its storage.

SQLite with segment files takes this place by default; a database and an object
store could, where several servers share the work.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from fedrun.journal.codec import Row


class Entry(NamedTuple):
    """One record with its number."""

    number: int
    record: Row


class Damage(NamedTuple):
    """A row that does not say what was written."""

    number: int
    reason: str
    at_end: bool  # nothing sound comes after it


class Store(Protocol):
    """Numbered records; an append is one durable transaction."""

    def append(self, records: Sequence[Row]) -> int:
        """Makes these records durable, all or none; the number of the last one."""

    def entries(self, after: int = 0, *, payloads: bool = True) -> Iterator[Entry]:
        """The records behind a number, in order; a damaged one raises.

        Without their payloads they are read faster, and not checked.
        """

    def find(self, kind: str) -> list[Entry]:
        """All records of a kind."""

    @property
    def last(self) -> int:
        """The number of the newest record; 0 if there is none."""

    def damage(self, after: int = 0) -> Damage | None:
        """The first damaged row behind a number."""

    def cut(self, number: int) -> int:
        """Removes this record and all behind it; how many they were."""

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
