"""The journal in SQLite: small payloads in rows, large ones in segments.

WAL with ``synchronous=FULL``: a committed transaction survives a power cut. Large
payloads are synced before the row that names them is committed, so a row never
points at bytes that are not there. Every row has a checksum over all it says.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedcore.errors import CorruptJournalError, JournalError, JournalVersionError
from fedcore.typing import Bytes
from fedrun.durable import make_folder
from fedrun.journal.codec import Row, checksum, from_row, to_row
from fedrun.journal.disk import explained
from fedrun.journal.segments import Place, Segments
from fedrun.journal.store import Damage, Entry

SCHEMA_VERSION = 1
LARGE = 64 << 10  # payloads of at least this many bytes go to segments

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
        self, folder: Path, *, read_only: bool = False, durable: bool = True
    ) -> None:
        self._file = folder / "journal.sqlite3"
        if read_only and not self._file.is_file():
            raise JournalError(f"{folder}: no journal here")
        try:
            if not read_only:
                make_folder(folder / "segments")
            self._db = self._connect(read_only, durable)
        except (sqlite3.Error, OSError) as error:
            raise explained(self._file, error) from error
        self._segments = Segments(folder / "segments")
        try:
            self._start(read_only)
        except BaseException:
            self.close()
            raise

    def _start(self, read_only: bool) -> None:
        self._check_version(read_only)
        self._last: int = self._one("SELECT coalesce(max(number), 0) FROM records")
        if not read_only:
            self._segments.start(self._taken())

    def _connect(self, read_only: bool, durable: bool) -> sqlite3.Connection:
        mode = "ro" if read_only else "rwc"
        db = sqlite3.connect(
            f"file:{self._file}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=5.0,
        )
        if not read_only:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        return db

    def _check_version(self, read_only: bool) -> None:
        version = self._one("PRAGMA user_version")
        if version > SCHEMA_VERSION:
            raise JournalVersionError(
                f"{self._file} has schema {version}, this program knows up to "
                f"{SCHEMA_VERSION}: use the newer program that wrote it"
            )
        if version == 0 and not read_only:
            try:
                self._db.executescript(
                    f"BEGIN; {_SCHEMA} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
                )
            except sqlite3.Error as error:
                raise explained(self._file, error) from error

    def append(self, records: Sequence[Row]) -> int:
        """Makes these records durable, all or none; the number of the last one."""
        rows, number = [], self._last
        try:
            for record in records:
                number += 1
                rows.append(self._row(number, *to_row(record)))
            self._segments.sync()
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(
                "INSERT INTO records (number, kind, body, payload, segment, start, "
                "size, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise explained(self._file, error) from error
        self._last = number
        return number

    def _row(
        self, number: int, kind: str, body: str, payload: Bytes
    ) -> tuple[Any, ...]:
        size, check = len(payload), checksum(number, kind, body, payload)
        if size >= LARGE:
            place = self._segments.write(payload)
            return number, kind, body, None, place.segment, place.offset, size, check
        return number, kind, body, payload or None, None, None, size, check

    def entries(self, after: int = 0, *, payloads: bool = True) -> Iterator[Entry]:
        """The records behind a number, in order; without payloads unchecked."""
        for row in self._rows(after, _SELECT if payloads else _SELECT_BARE):
            record, reason = self._read(row)
            if record is None:
                raise CorruptJournalError(f"{self._file}: record {row[0]}: {reason}")
            yield Entry(row[0], record)

    def find(self, kind: str) -> list[Entry]:
        """All records of a kind."""
        found = []
        for row in self._query(f"{_SELECT} WHERE kind = ? ORDER BY number", kind):
            record, reason = self._read(row)
            if record is None:
                raise CorruptJournalError(f"{self._file}: record {row[0]}: {reason}")
            found.append(Entry(row[0], record))
        return found

    @property
    def last(self) -> int:
        """The number of the newest record; 0 if there is none."""
        return self._last

    def damage(self, after: int = 0) -> Damage | None:
        """The first damaged row behind a number."""
        found: Damage | None = None
        for row in self._rows(after):
            _, reason = self._read(row)
            if found is None and reason:
                found = Damage(row[0], reason, at_end=True)
            elif found is not None and not reason:
                return found._replace(at_end=False)
        return found

    def _rows(self, after: int, select: str = _SELECT) -> Iterator[tuple[Any, ...]]:
        expected = after
        try:
            for row in self._db.execute(
                f"{select} WHERE number > ? ORDER BY number", (after,)
            ):
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

    def _read(self, row: tuple[Any, ...]) -> tuple[Row | None, str]:
        """The record of a row, or why there is none."""
        number, kind, body, payload, segment, start, size, check, dropped = row
        if segment is not None:
            place = Place(segment, start, size)
            try:
                payload = self._segments.read(place)
            except JournalError as error:
                return None, str(error)
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

    def cut(self, number: int) -> int:
        """Removes this record and all behind it; how many they were."""
        gone = self._last - number + 1
        self._write("DELETE FROM records WHERE number >= ?", number)
        self._last = number - 1
        self._segments.start(self._taken())
        return gone

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
        if value is None:
            self._write("DELETE FROM facts WHERE key = ?", key)
        else:
            self._write("INSERT OR REPLACE INTO facts VALUES (?, ?)", key, value)

    def noted(self, key: str) -> str | None:
        """A small fact."""
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

    def copy_to(self, path: Path) -> None:
        """Writes a consistent copy of the SQLite file, also while a run goes on."""
        target = sqlite3.connect(path)
        try:
            self._db.backup(target)
        except sqlite3.Error as error:
            raise explained(path, error) from error
        finally:
            target.close()

    def close(self) -> None:
        """Releases the files."""
        self._segments.close()
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
        try:
            self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise explained(self._file, error) from error
