"""The journal in SQLite: small payloads in rows, large ones in segments.

WAL with ``synchronous=FULL``: a committed transaction survives a power cut. Large
payloads are synced before the row that names them is committed, so a row never
points at bytes that are not there. Every row has a checksum over all it says.
"""

import contextlib
import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedcore.errors import CorruptJournalError, JournalError, JournalVersionError
from fedcore.typing import Bytes
from fedrun.durable import make_private, make_private_folder, sync_database
from fedrun.journal.codec import Row, checksum, from_row, to_row
from fedrun.journal.disk import explained, reading
from fedrun.journal.mark import FILE as MARK
from fedrun.journal.mark import Mark, MarkFile, read_marks
from fedrun.journal.segments import Place, Segments
from fedrun.journal.store import NO_FACTS, Damage, Entry, Facts, Loss, WholeRow

FILE = "journal.sqlite3"
SCHEMA_VERSION = 1
LARGE = 64 << 10  # payloads of at least this many bytes go to segments
HISTORY = "history"  # the fact that names what the records' numbers count
_VOLATILE = "volatile"  # the fact of a run that never waited for the disk
_AT_ONCE = 64  # rows that are read together
_NINE = ", ".join("?" * 9)

_SCHEMA = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
  number INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  payload BLOB,
  segment INTEGER, start INTEGER, size INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  dropped INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX taken ON records (segment) WHERE segment IS NOT NULL;
CREATE INDEX kept ON records (number, size) WHERE dropped = 0 AND size > 0;
CREATE INDEX gone ON records (number) WHERE dropped = 1;
"""
_COLUMNS = "number, kind, body, payload, segment, start, size, checksum, dropped"
_SELECT = f"SELECT {_COLUMNS} FROM records"
_SELECT_BARE = (  # as if all payloads had been dropped
    "SELECT number, kind, body, NULL, NULL, NULL, size, checksum, 1 FROM records"
)


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
        """What is missing is made by the first transaction, whole or not at all.

        Args:
            folder: of the run.
            read_only: nothing is changed.
            durable: what is appended is on disk before the call returns.
            lenient: segments may be missing, since what they held is to be cut.
        """
        self._file = folder / FILE
        self._read_only, self._durable = read_only, durable
        self._lenient = lenient
        if read_only and not self._file.is_file():
            raise JournalError(f"{folder}: no journal here")
        try:
            if not read_only:
                make_private_folder(folder)
                make_private(self._file)
                sync_database(self._file)
            self._db = self._connect()
        except (sqlite3.Error, OSError) as error:
            raise explained(self._file, error) from error
        self._segments = Segments(folder / "segments", read_only=read_only)
        self._mark = MarkFile(folder)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self._fresh = self._is_fresh()
        self._hidden = False  # whether there is a damaged end that is to be cut
        self._stale = False  # whether an append failed and left its payloads
        self._last: int = 0
        self._history = b""
        if self._fresh:
            self._history = secrets.token_bytes(8)
            return
        self._last = self._one("SELECT coalesce(max(number), 0) FROM records")
        self._history = bytes.fromhex(self.noted(HISTORY) or "")
        if not self._read_only:
            self._durable = self._durable and not self.volatile
            if not self._history:  # written by an older program
                self._history = secrets.token_bytes(8)
                self.note(HISTORY, self._history.hex())
            taken = self._taken()
            if not self._lenient:
                self._segments.require(taken)
            self._segments.start(taken)

    def _connect(self) -> sqlite3.Connection:
        if self._read_only:
            return connect_to_read(self._file)
        db = connect(self._file, "mode=rwc")
        try:
            mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            if mode != "wal":
                raise JournalError(
                    f"{self._file}: this file system cannot hold a journal: SQLite's "
                    f"write-ahead log needs shared memory there, expected journal_mode "
                    f"wal, got {mode}; use a local disk"
                )
            db.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'OFF'}")
        except BaseException:
            db.close()
            raise
        return db

    def _is_fresh(self) -> bool:
        """Whether there is no schema yet."""
        version = self._one("PRAGMA user_version")
        if version > SCHEMA_VERSION:
            raise JournalVersionError(
                f"{self._file} has schema {version}, this program knows up to "
                f"{SCHEMA_VERSION}: use the newer program that wrote it"
            )
        return bool(version == 0)

    def append(self, records: Sequence[Row], facts: Facts = NO_FACTS) -> int:
        """Makes these records and facts durable, all or none; the last one's number.

        Raises:
            DiskError: nothing was written; the same records can be appended again.
        """
        if self._hidden:
            raise JournalError(f"{self._file}: its damaged end was not cut off yet")
        rows, number = [], self._last
        try:
            self._forget_failure()
            for record in records:
                number += 1
                rows.append(self._row(number, *to_row(record)))
            self._segments.sync()
        except OSError as error:
            self._stale = True
            raise explained(self._file, error) from error
        with self._transaction():
            self._insert(rows)
            self._note(facts)
        self._advance(number)
        return number

    def _forget_failure(self) -> None:
        """Payloads of an append that failed are written again, and so are synced.

        What a failed sync left in the page cache is not to be trusted.
        """
        if self._stale:
            self._segments.start(self._taken() if not self._fresh else {})
            self._stale = False

    def _insert(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._db.executemany(
            "INSERT INTO records (number, kind, body, payload, segment, start, "
            "size, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def _advance(self, number: int) -> None:
        """All up to this record is durable."""
        self._last = number
        if self._durable:
            self._mark.write(Mark(self._history, number))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, and on disk; the first one makes the file what it is."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            if self._fresh:
                self._make_schema()
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            self._stale = True
            with contextlib.suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error | OSError):
                raise explained(self._file, error) from error
            raise
        self._fresh = False  # SQLite has synced the names of its files, too

    def _make_schema(self) -> None:
        for statement in _SCHEMA.split(";"):
            self._db.execute(statement)
        self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        self._note({HISTORY: self._history.hex()})
        if not self._durable:
            self._note({_VOLATILE: "yes"})

    def _row(
        self, number: int, kind: str, body: str, payload: Bytes
    ) -> tuple[Any, ...]:
        size, check = len(payload), checksum(number, kind, body, payload)
        if size >= LARGE:
            durable = self._last if self._durable else 0
            place = self._segments.write(payload, self._history, number, durable)
            return number, kind, body, None, place.segment, place.offset, size, check
        return number, kind, body, payload or None, None, None, size, check

    def entries(self, after: int = 0, *, payloads: bool = True) -> Iterator[Entry]:
        """The records behind a number, in order; without payloads unchecked."""
        for row in self._in_order(after, _SELECT if payloads else _SELECT_BARE):
            record, reason = self._read(row)
            if record is None:
                raise CorruptJournalError(f"{self._file}: record {row[0]}: {reason}")
            yield Entry(row[0], record)

    def find(self, kind: str) -> list[Entry]:
        """All records of a kind."""
        found = []
        query = f"{_SELECT} WHERE kind = ? AND number <= ? ORDER BY number"
        for row in self._query(query, kind, self._last):
            record, reason = self._read(row)
            if record is None:
                raise CorruptJournalError(f"{self._file}: record {row[0]}: {reason}")
            found.append(Entry(row[0], record))
        return found

    @property
    def last(self) -> int:
        """The number of the newest record; 0 if there is none."""
        return self._last

    def loss(self) -> Loss | None:
        """Records that were durable and are not here, behind the last one.

        Raises:
            JournalError: what would tell cannot be read.
        """
        with reading(self._file.parent / MARK):
            marks = read_marks(self._file.parent)
        if self._fresh:
            raise CorruptJournalError(
                f"{self._file} holds no records, and has held "
                f"{max((mark.number for mark in marks), default=0)}; bring back a "
                "backup with fedserver restore"
            )
        if self.volatile:
            return None
        known = [mark.number for mark in marks if mark.history == self._history]
        headers = self._segments.headers(self._taken())
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
        """The mark says, durably, that a record behind the last one was lost.

        To be called before other evidence is overwritten.
        """
        if self.volatile or not self._history:
            return
        lost = self.loss()
        number = self._last + 1 if lost is None else lost.last
        try:
            self._mark.prove(Mark(self._history, number))
        except OSError as error:
            raise explained(self._file.parent / MARK, error) from error

    @property
    def volatile(self) -> bool:
        """Whether nothing was promised: such a run never waits for the disk."""
        return self.noted(_VOLATILE) is not None

    def damage(self, after: int = 0, *, unreadable: bool = False) -> Damage | None:
        """The first damaged row behind a number.

        Raises:
            JournalError: a payload cannot be read, which is no damage; but if
                ``unreadable``, it is.
        """
        found: Damage | None = None
        expected = after
        try:
            for row in self._rows(after):
                expected += 1
                if row[0] != expected:
                    found = found or Damage(expected, "", at_end=False)
                    return found._replace(at_end=False)
                reason = self._wrong(row, unreadable=unreadable)
                if found is None and reason:
                    found = Damage(row[0], reason, at_end=True)
                elif found is not None and not reason:
                    return found._replace(at_end=False)
        except sqlite3.Error as error:
            raise CorruptJournalError(
                f"{self._file}: after record {expected}: {error}"
            ) from error
        return found

    def _in_order(self, after: int, select: str) -> Iterator[tuple[Any, ...]]:
        expected = after
        try:
            for row in self._rows(after, select):
                expected += 1
                if row[0] != expected:
                    raise CorruptJournalError(
                        f"{self._file}: record {expected} is missing"
                    )
                yield row
        except sqlite3.Error as error:
            raise CorruptJournalError(
                f"{self._file}: after record {expected}: {error}"
            ) from error

    def _rows(self, after: int, select: str = _SELECT) -> Iterator[tuple[Any, ...]]:
        query = f"{select} WHERE number > ? AND number <= ? ORDER BY number"
        yield from self._db.execute(query, (after, self._last))

    def _read(self, row: tuple[Any, ...]) -> tuple[Row | None, str]:
        """The record of a row, or what is wrong with its bytes."""
        number, kind, body, payload, segment, start, size, check, dropped = row
        if segment is not None:
            payload = self._segments.read(Place(segment, start, size))
        payload = payload or b""
        if not dropped:
            if len(payload) != size:
                return None, f"{size} bytes of payload expected, {len(payload)} found"
            if checksum(number, kind, body, payload) != check:
                where = f"segment {segment} at byte {start}" if segment else "its row"
                return None, f"its checksum is wrong (payload in {where})"
        try:
            return from_row(kind, body, payload), ""
        except (ValueError, KeyError) as error:
            return None, f"{kind}: {error}"

    def _wrong(self, row: tuple[Any, ...], *, unreadable: bool) -> str:
        try:
            return self._read(row)[1]
        except JournalError as error:
            if not unreadable:
                raise
            return str(error)

    def check_pages(self) -> None:
        """Whether the pages fit together, as far as SQLite can tell.

        Raises:
            CorruptJournalError: they do not.
        """
        told = str(self._one("PRAGMA quick_check(1)"))
        if told != "ok":
            raise CorruptJournalError(
                f"{self._file}: {told}; it cannot be repaired: bring back a backup "
                "with fedserver restore"
            )

    def hide(self, number: int) -> None:
        """This record and all behind it are not read any more; they are to be cut."""
        self._last, self._hidden = number - 1, True

    def cut(
        self, number: int, records: Sequence[Row] = (), facts: Facts = NO_FACTS
    ) -> int:
        """Puts records in the place of this one and all behind it; the last's number.

        The numbers begin to count something else: what was written behind the end
        before says nothing of the new end. Payloads before it whose segment is gone
        are as those that were dropped.
        """
        self._last, history = number - 1, secrets.token_bytes(8)
        rows = []
        for place, record in enumerate(records, number):
            rows.append(self._row(place, *to_row(record)))
        with self._transaction():
            self._db.execute("DELETE FROM records WHERE number >= ?", (number,))
            self._forget_unreadable()
            self._insert(rows)
            self._segments.sync()
            self._note({**facts, HISTORY: history.hex()})
        self._history, self._hidden = history, False
        self._segments.start(self._taken())
        self._advance(self._last + len(rows))
        return self._last

    def forget_unreadable(self) -> int:
        """Payloads whose segment is gone are as those that were dropped; how many."""
        with self._transaction():
            return self._forget_unreadable()

    def _forget_unreadable(self) -> int:
        forgotten = 0
        for number, end in self._taken().items():
            try:
                self._segments.require({number: end})
            except JournalError:
                forgotten += self._db.execute(
                    "UPDATE records SET segment = NULL, start = NULL, dropped = 1"
                    " WHERE segment = ?",
                    (number,),
                ).rowcount
        return forgotten

    def copy_end(self, number: int, target: Path) -> None:
        """Copies this record and all behind it, as they are, with their payloads.

        The file is on disk once it is synced.
        """
        make_private(target)
        copy = connect(target, "mode=rwc")
        try:
            copy.execute("PRAGMA journal_mode=OFF")
            copy.execute("PRAGMA synchronous=OFF")
            copy.execute(
                "CREATE TABLE records (number, kind, body, payload, segment, start, "
                "size, checksum, dropped)"
            )
            copy.execute("BEGIN")
            for row in self._db.execute(f"{_SELECT} WHERE number >= ?", (number,)):
                values = list(row)
                if row[4] is not None:
                    with contextlib.suppress(JournalError):
                        values[3] = self._segments.read(Place(*row[4:7]))
                copy.execute(f"INSERT INTO records VALUES ({_NINE})", values)
            copy.execute("COMMIT")
        except sqlite3.Error as error:
            raise explained(target, error) from error
        finally:
            copy.close()

    def drop_payloads(self, up_to: int) -> None:
        """The payloads of these records are not needed any more."""
        before = set(self._taken())
        self._write(
            "UPDATE records SET payload = NULL, segment = NULL, start = NULL,"
            " dropped = 1 WHERE number <= ? AND dropped = 0 AND size > 0",
            up_to,
        )
        for number in before - set(self._taken()):
            self._segments.recycle(number)

    def note(self, key: str, value: str | None) -> None:
        """Keeps a small fact beside the records; None removes it."""
        with self._transaction():
            self._note({key: value})

    def _note(self, facts: Facts) -> None:
        for key, value in facts.items():
            if value is None:
                self._db.execute("DELETE FROM facts WHERE key = ?", (key,))
            else:
                self._db.execute(
                    "INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value)
                )

    def noted(self, key: str) -> str | None:
        """A small fact."""
        if self._fresh:
            return None
        rows = self._query("SELECT value FROM facts WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def payload_bytes(self) -> int:
        """Bytes of all payloads that are kept."""
        kept = "FROM records WHERE dropped = 0 AND size > 0"
        return int(self._one(f"SELECT coalesce(sum(size), 0) {kept}"))

    def first_payload(self) -> int:
        """The number behind which every payload is still there."""
        return int(
            self._one("SELECT coalesce(max(number), 0) FROM records WHERE dropped = 1")
        )

    def whole_rows(self, after: int) -> Iterator[WholeRow]:
        """The rows behind a number with their payloads, also while a run goes on.

        Raises:
            CorruptJournalError: a row is damaged or missing.
        """
        query = f"{_SELECT} WHERE number > ? ORDER BY number LIMIT {_AT_ONCE}"
        while rows := self._query(query, after):
            for row in rows:
                after += 1
                if row[0] != after:
                    raise CorruptJournalError(
                        f"{self._file}: record {after} cannot be copied: it is missing"
                    )
                yield self._whole(row)

    def _whole(self, row: tuple[Any, ...]) -> WholeRow:
        wrong = self._wrong(row, unreadable=True)
        if wrong:  # or the payload was dropped since the row was read
            [row] = self._query(f"{_SELECT} WHERE number = ?", row[0])
            wrong = self._wrong(row, unreadable=True)
        number, kind, body, payload, segment, start, size, check, dropped = row
        if wrong:
            raise CorruptJournalError(
                f"{self._file.parent}: record {number} cannot be copied: {wrong}"
            )
        if segment is not None:
            payload = self._segments.read(Place(segment, start, size))
        return WholeRow(number, kind, body, payload, size, check, bool(dropped))

    def facts(self) -> dict[str, str]:
        """All facts."""
        return dict(self._query("SELECT key, value FROM facts"))

    def take_over(self, rows: Iterable[WholeRow], facts: Facts) -> int:
        """Appends rows of another store as they are, all or none; the last number."""
        self._forget_failure()
        number = self._last
        self._history = bytes.fromhex(facts.get(HISTORY) or self._history.hex())
        with self._transaction():
            for row in rows:
                number = row.number
                self._db.execute(
                    "INSERT INTO records (number, kind, body, payload, segment, start, "
                    f"size, checksum, dropped) VALUES ({_NINE})",
                    self._placed(row),
                )
            self._segments.sync()
            self._note(facts)
        self._advance(number)
        return number

    def _placed(self, row: WholeRow) -> tuple[Any, ...]:
        head, tail = row[:3], (row.size, row.check, int(row.dropped))
        if row.payload is None or len(row.payload) < LARGE:
            return *head, row.payload, None, None, *tail
        durable = self._last if self._durable else 0
        place = self._segments.write(row.payload, self._history, row.number, durable)
        return *head, None, place.segment, place.offset, *tail

    def close(self) -> None:
        """Releases the files."""
        self._segments.close()
        self._mark.close()
        self._db.close()

    def _taken(self) -> dict[int, int]:
        """The segments in use, and where each one's last payload ends."""
        return dict(
            self._query(
                "SELECT segment, max(start + size) FROM records"
                " WHERE segment IS NOT NULL GROUP BY segment"
            )
        )

    def _one(self, query: str) -> Any:
        return self._query(query)[0][0]

    def _query(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise explained(self._file, error) from error

    def _write(self, statement: str, *values: Any) -> None:
        with self._transaction():
            self._db.execute(statement, values)


def connect(file: Path, how: str) -> sqlite3.Connection:
    """A connection that commits when it is told to."""
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?{how}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=5.0,
    )


def connect_to_read(file: Path) -> sqlite3.Connection:
    """A connection that changes nothing, also where nothing can be written."""
    if os.access(file.parent, os.W_OK):
        return connect(file, "mode=ro")
    log = file.with_name(f"{file.name}-wal")
    if not log.is_file() or not log.stat().st_size:
        return connect(file, "immutable=1")
    with tempfile.TemporaryDirectory() as copy:  # SQLite needs a file beside a log
        for each in (file, log):
            shutil.copyfile(each, Path(copy) / each.name)
        db = connect(Path(copy) / file.name, "mode=rw")
        db.execute("SELECT count(*) FROM sqlite_master")
        return db
