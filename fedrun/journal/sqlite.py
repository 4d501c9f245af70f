"""The journal in SQLite: small payloads in rows, large ones in segments.

Large payloads are synced before the row that names them is committed, so a row never
points at bytes that are not there.
"""

import contextlib
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from fedcore.errors import CorruptJournalError, JournalError
from fedrun.journal.database import FILE, Database
from fedrun.journal.disk import explain, reading
from fedrun.journal.rows import Rows
from fedrun.journal.segments import FILE as MARK
from fedrun.journal.segments import (
    Mark,
    MarkFile,
    Segments,
    find_damaged_marks,
    read_marks,
)
from fedrun.journal.store import (
    NO_FACTS,
    Damage,
    Entry,
    Facts,
    Loss,
    Row,
    Spoilt,
    WholeRow,
)

T = TypeVar("T")
HISTORY = "history"  # the fact with the name of the records' numbering
_VOLATILE = "volatile"  # the fact of a run that never waited for the disk


class SqliteStore:
    """Numbered records in one SQLite file and its segments."""

    def __init__(
        self,
        folder: Path,
        *,
        read_only: bool = False,
        durable: bool = True,
        lenient: bool = False,
    ) -> None:
        """Opens a store; what is missing is made by the first transaction.

        Args:
            folder: of the run.
            read_only: nothing is changed.
            durable: what is appended is on disk before the call returns.
            lenient: segments may be missing, since what they held is to be cut.
        """
        self._folder = folder
        self._file = folder / FILE
        self._read_only, self._durable = read_only, durable
        self._lenient = lenient
        if read_only and not self._file.is_file():
            raise JournalError(f"{folder}: no journal here")
        self._db = Database(self._file, read_only=read_only, durable=durable)
        self._segments = Segments(folder / "segments", read_only=read_only)
        self._rows = Rows(self._db, self._segments)
        self._mark = MarkFile(folder)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self._hidden = False  # whether there is a damaged end that is to be cut
        self._stale = False  # whether an append failed and left its payloads
        self._last: int = 0
        self._history = b""
        if self._db.is_fresh:
            self._history = secrets.token_bytes(8)
            facts = {HISTORY: self._history.hex()}
            self._db.first_facts = (
                facts if self._durable else {**facts, _VOLATILE: "yes"}
            )
            return
        self._last = self._db.value("SELECT coalesce(max(number), 0) FROM records")
        self._history = self.read_fact_as(bytes.fromhex, HISTORY) or b""
        if not self._read_only:
            self._durable = self._durable and not self.volatile
            taken = self._rows.segments_in_use()
            if not self._lenient:
                self._segments.require(taken)
            self._segments.start(taken)

    # ------------------------------------------------------------------ writing

    def append(self, records: Sequence[Row], facts: Facts = NO_FACTS) -> int:
        """Makes records and facts durable, all or none; returns the last number.

        Raises:
            DiskError: nothing was written; the same records can be appended again.
        """
        if self._hidden:
            raise JournalError(f"{self._file}: its damaged end was not cut off yet")
        rows, number = [], self._last
        durable = self._last if self._durable else 0
        try:
            self._forget_failure()
            for record in records:
                number += 1
                rows.append(self._rows.values(number, record, self._history, durable))
            self._segments.sync()
        except OSError as error:
            self._stale = True
            raise explain(self._file, error) from error
        with self._transaction():
            self._rows.insert(rows)
            self._db.put_facts(facts)
        self._advance(number)
        return number

    def _forget_failure(self) -> None:
        """Makes the next append write and sync the payloads of a failed one again.

        What a failed sync left in the page cache is not to be trusted.
        """
        if self._stale:
            is_fresh = self._db.is_fresh
            self._segments.start({} if is_fresh else self._rows.segments_in_use())
            self._stale = False

    def _advance(self, number: int) -> None:
        """Notes that all records up to this one are durable."""
        self._last = number
        if self._durable:
            self._mark.write(Mark(self._history, number))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Makes all of the block's changes durable, or none."""
        try:
            with self._db.transaction() as connection:
                yield connection
        except BaseException:
            self._stale = True
            raise

    def note(self, key: str, value: str | None) -> None:
        """Keeps a small fact beside the records; None removes it."""
        with self._transaction():
            self._db.put_facts({key: value})

    def drop_payloads(self, up_to: int) -> None:
        """Drops the payloads of the records up to this one."""
        before = set(self._rows.segments_in_use())
        with self._transaction():
            self._rows.drop(up_to)
        for number in before - set(self._rows.segments_in_use()):
            self._segments.recycle(number)

    # ------------------------------------------------------------------ reading

    def entries(self, after: int = 0, *, payloads: bool = True) -> Iterator[Entry]:
        """Yields the records after a number; without payloads, they are not checked."""
        found = self._rows.in_order(after, self._last, payloads=payloads)
        for number, record in found:
            yield Entry(number, record)

    def find(self, kind: str) -> list[Entry]:
        """Returns all records of a kind."""
        found = self._rows.of_kind(kind, self._last)
        return [Entry(number, record) for number, record in found]

    @property
    def last(self) -> int:
        """The number of the newest record; 0 if there is none."""
        return self._last

    @property
    def volatile(self) -> bool:
        """Whether the run never waits for the disk, since it promises nothing."""
        return self.read_fact(_VOLATILE) is not None

    def read_fact(self, key: str) -> str | None:
        """Returns a small fact; None if there is none of this key."""
        return self._db.fact(key)

    def read_fact_as(self, read: Callable[[str], T], key: str) -> T | None:
        """Returns what ``read`` makes of a small fact; None if there is none.

        Raises:
            CorruptJournalError: the fact cannot be read so.
        """
        fact = self.read_fact(key)
        try:
            return None if fact is None else read(fact)
        except ValueError as error:
            raise CorruptJournalError(
                f"{self._file}: the fact {key!r} is damaged: {error}"
            ) from None

    def payload_bytes(self) -> int:
        """Returns the bytes of all payloads that are kept."""
        kept = "FROM records WHERE dropped = 0 AND size > 0"
        return int(self._db.value(f"SELECT coalesce(sum(size), 0) {kept}"))

    def first_payload(self) -> int:
        """Returns the number of a record after which no payload was dropped."""
        dropped = "FROM records WHERE dropped = 1"
        return int(self._db.value(f"SELECT coalesce(max(number), 0) {dropped}"))

    # ----------------------------------------------------------------- checking

    def loss(self) -> Loss | None:
        """Returns records after the last one that were durable once, if any.

        Raises:
            JournalError: what would tell cannot be read.
        """
        with reading(self._folder / MARK):
            marks = read_marks(self._folder)
        if self._db.is_fresh:
            raise CorruptJournalError(
                f"{self._file} holds no records, and has held "
                f"{max((mark.number for mark in marks), default=0)}; bring back a "
                "backup with fedserver restore"
            )
        if self.volatile:
            return None
        known = [mark.number for mark in marks if mark.history == self._history]
        headers = self._segments.headers(self._rows.segments_in_use())
        known += [each.durable for each in headers if each.history == self._history]
        if max(known, default=0) <= self._last:
            return None
        return Loss(
            self._last + 1,
            max(known),
            f"records up to {max(known)} had been written, and it ends with record "
            f"{self._last}",
        )

    def prove_loss(self) -> None:
        """Marks durably that a record after the last one was lost.

        To be called before other evidence is overwritten.
        """
        if self.volatile or not self._history:
            return
        lost = self.loss()
        number = self._last + 1 if lost is None else lost.last
        try:
            self._mark.prove(Mark(self._history, number))
        except OSError as error:
            raise explain(self._folder / MARK, error) from error

    def damage(self, after: int = 0, *, unreadable: bool = False) -> Damage | None:
        """Returns the first damaged row after a number; None if there is none.

        Raises:
            JournalError: a payload cannot be read, which is no damage; but if
                ``unreadable``, it is.
        """
        return self._rows.damage(after, self._last, unreadable=unreadable)

    def spoilt(self, up_to: int) -> list[Spoilt]:
        """Returns all damaged or missing rows up to a number."""
        return list(self._rows.spoilt(up_to))

    def check_pages(self) -> None:
        """Checks that the pages fit together, as far as SQLite can tell.

        Raises:
            CorruptJournalError: they do not.
        """
        found = str(self._db.value("PRAGMA quick_check(1)"))
        if found != "ok":
            raise CorruptJournalError(
                f"{self._file}: {found}; it cannot be repaired: bring back a backup "
                "with fedserver restore"
            )

    def wrong_beside_records(self) -> Iterator[str]:
        """Yields what is wrong with all that lies beside the records.

        That is indices, facts, the headers before payloads, and the mark.
        """
        found = str(self._db.value("PRAGMA integrity_check(1)"))
        if found != "ok":
            yield f"{self._file}: {found}"
        if self._db.wrong_facts():
            yield (
                f"{self._file}: the checksum of the facts beside the records is wrong; "
                "bring back a backup with fedserver restore"
            )
        yield from self._rows.wrong_headers()
        with reading(self._folder / MARK):
            for byte in find_damaged_marks(self._folder):
                yield (
                    f"{self._folder / MARK}: damaged at byte {byte}; the next start "
                    "writes it anew"
                )

    # ------------------------------------------------------------------ cutting

    def hide(self, number: int) -> None:
        """Stops reading this record and all later ones, which are to be cut."""
        self._last, self._hidden = number - 1, True

    def cut(
        self, number: int, records: Sequence[Row] = (), facts: Facts = NO_FACTS
    ) -> int:
        """Replaces this record and all later ones; returns the last number.

        The numbers get a new history, so that bytes after the old end say nothing about
        the new one. Payloads of earlier records whose segment is gone count as dropped.
        """
        self._last, history = number - 1, secrets.token_bytes(8)
        durable = self._last if self._durable else 0
        rows = [
            self._rows.values(place, record, self._history, durable)
            for place, record in enumerate(records, number)
        ]
        with self._transaction() as connection:
            connection.execute("DELETE FROM records WHERE number >= ?", (number,))
            self._rows.forget_unreadable()
            self._rows.insert(rows)
            self._segments.sync()
            self._db.put_facts({**facts, HISTORY: history.hex()})
        self._history, self._hidden = history, False
        self._segments.start(self._rows.segments_in_use())
        self._advance(self._last + len(rows))
        return self._last

    def forget(self, numbers: Sequence[int]) -> None:
        """Marks the payloads of these records as dropped."""
        with self._transaction():
            self._rows.forget(numbers)

    def forget_unreadable(self) -> int:
        """Marks payloads whose segment is gone as dropped; returns how many."""
        with self._transaction():
            return self._rows.forget_unreadable()

    # ------------------------------------------------------------------ copying

    def copy_end(self, number: int, target: Path) -> None:
        """Copies this record and all later ones unchanged, with their payloads.

        The file is on disk once it is synced.
        """
        self._rows.copy_end(number, target)

    def copy_these(self, numbers: Sequence[int], target: Path) -> None:
        """Copies records unchanged, with what can be read of their payloads."""
        self._rows.copy_these(numbers, target)

    def whole_rows(self, after: int) -> Iterator[WholeRow]:
        """Yields the rows after a number with their payloads, also while a run goes on.

        Raises:
            CorruptJournalError: a row is damaged or missing.
        """
        return self._rows.whole(after)

    def facts(self) -> dict[str, str]:
        """Returns all facts."""
        return dict(self._db.facts())

    def take_over(self, rows: Iterable[WholeRow], facts: Facts) -> int:
        """Appends rows of another store, all or none; returns the last number."""
        self._forget_failure()
        number, durable = self._last, self._last if self._durable else 0
        self._history = bytes.fromhex(facts.get(HISTORY) or self._history.hex())
        with self._transaction():
            for row in rows:
                number = row.number
                copied = self._rows.copy_values(row, self._history, durable)
                self._rows.insert([copied])
            self._segments.sync()
            self._db.put_facts(facts)
        self._advance(number)
        return number

    def close(self) -> None:
        """Releases the files."""
        self._segments.close()
        self._mark.close()
        self._db.close()
