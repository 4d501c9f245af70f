"""The rows of a journal's records: written with checksums, and checked when read.

Small payloads lie in the rows, large ones in segments. Every row has a checksum over
all it says.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from fedcore.coordinator.events import Decided
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.params import content_digest
from fedrun.durable import make_private
from fedrun.journal.database import Database, never_wait
from fedrun.journal.disk import explain, writing
from fedrun.journal.segments import Place, Segments
from fedrun.journal.store import (
    Damage,
    Row,
    Spoilt,
    WholeRow,
    checksum,
    from_row,
    to_row,
)
from fedrun.sqlite import ERRORS, connect, message

LARGE = 64 << 10  # payloads of at least this many bytes go to segments
_AT_ONCE = 64  # rows that are read together
_COLUMNS = "number, kind, body, payload, segment, start, size, checksum, dropped"
_INSERT = f"INSERT INTO records ({_COLUMNS}) VALUES ({', '.join('?' * 9)})"
_SELECT = f"SELECT {_COLUMNS} FROM records"
_SELECT_BARE = (  # as if all payloads had been dropped, and without a check
    "SELECT number, kind, body, NULL, NULL, NULL, size, checksum, 2 FROM records"
)
_DROP = (  # the payload; the checksum is of the rest from then on
    "UPDATE records SET payload = NULL, segment = NULL, start = NULL, dropped = 1,"
    " checksum = checksum_without_payload(number, kind, body)"
)
_TYPES = {  # of a row's columns; SQLite itself keeps any type in any of them
    (int, str, str, payload, place, place, int, int, int)
    for payload in (bytes, NoneType)
    for place in (int, NoneType)
}
# Of what SQLite keeps in these columns, which may have any type.
_IS_PLACE = " AND ".join(
    f"typeof({each}) = 'integer' AND {each} BETWEEN 0 AND {2**62}"
    for each in ("segment", "start", "size")
)
_THESE = "WHERE number IN (SELECT value FROM json_each(?))"
Values = tuple[Any, ...]  # of one row, in the order of the columns


class Rows:
    """Reads and writes the rows of one database and its segments."""

    def __init__(self, database: Database, segments: Segments) -> None:
        self._database, self._segments = database, segments
        database.connection.create_function(
            "checksum_without_payload", 3, _bare_checksum, deterministic=True
        )

    # ------------------------------------------------------------------ writing

    def values(self, number: int, record: Row, history: bytes, durable: int) -> Values:
        """Returns the values of a new row; writes a large payload to a segment.

        Args:
            number: of the record.
            record: to write.
            history: what the numbers count.
            durable: the number of the last record that is on disk.
        """
        kind, body, payload = to_row(record)
        size, check = len(payload), checksum(number, kind, body, payload)
        if size >= LARGE:
            place = self._segments.write(payload, history, number, durable)
            place_values = place.segment, place.offset
            return number, kind, body, None, *place_values, size, check, 0
        return number, kind, body, payload or None, None, None, size, check, 0

    def copy_values(self, row: WholeRow, history: bytes, durable: int) -> Values:
        """Returns the values of a copied row; writes a large payload to a segment."""
        head, tail = row[:3], (row.size, row.check, int(row.dropped))
        if row.payload is None or len(row.payload) < LARGE:
            return *head, row.payload, None, None, *tail
        place = self._segments.write(row.payload, history, row.number, durable)
        return *head, None, place.segment, place.offset, *tail

    def insert(self, rows: Iterable[Values]) -> None:
        """Writes rows, within a transaction."""
        self._database.connection.executemany(_INSERT, rows)

    # ------------------------------------------------------------------ reading

    def read(self, row: Values) -> tuple[Row | None, str]:
        """Returns the record of a row, or None and what is wrong with its bytes."""
        if not _is_typed(row):
            return None, "a column holds another type than was written"
        number, kind, body, payload, segment, start, size, check, dropped = row
        if segment is not None:
            payload = self._segments.read(Place(segment, start, size))
        payload = payload or b""
        if dropped == 1:
            if _bare_checksum(number, kind, body) != check:
                return None, "its checksum is wrong"
        elif not dropped:
            if len(payload) != size:
                return None, f"{size} bytes of payload expected, {len(payload)} found"
            if checksum(number, kind, body, payload) != check:
                where = f"segment {segment} at byte {start}" if segment else "its row"
                return None, f"its checksum is wrong (payload in {where})"
        try:
            return from_row(kind, body, payload), ""
        except (ValueError, KeyError) as error:
            return None, f"{kind}: {error}"

    def in_order(
        self, after: int, last: int, *, payloads: bool
    ) -> Iterator[tuple[int, Row]]:
        """Yields the records from ``after`` + 1 to ``last``, with their numbers.

        Without payloads they are read faster, and not checked.

        Raises:
            CorruptJournalError: one is damaged or missing.
        """
        expected = after
        try:
            for row in self._between(
                after, last, _SELECT if payloads else _SELECT_BARE
            ):
                expected += 1
                if row[0] != expected:
                    raise CorruptJournalError(
                        f"{self._database.file}: record {expected} is missing"
                    )
                yield expected, self._sound(row)
        except ERRORS as error:
            raise self._unreadable(expected, error) from error

    def of_kind(self, kind: str, last: int) -> Iterator[tuple[int, Row]]:
        """Yields the records of a kind up to ``last``, with their numbers."""
        query = f"{_SELECT} WHERE kind = ? AND number <= ? ORDER BY number"
        for row in self._database.rows(query, kind, last):
            yield row[0], self._sound(row)

    def _sound(self, row: Values) -> Row:
        record, reason = self.read(row)
        if record is None:
            raise CorruptJournalError(
                f"{self._database.file}: record {row[0]}: {reason}"
            )
        return record

    def _between(self, after: int, last: int, select: str) -> Iterator[Values]:
        query = f"{select} WHERE number > ? AND number <= ? ORDER BY number"
        yield from self._database.connection.execute(query, (after, last))

    def _unreadable(self, number: int, error: Exception) -> CorruptJournalError:
        return CorruptJournalError(
            f"{self._database.file}: after record {number}: {message(error)}"
        )

    # ----------------------------------------------------------------- checking

    def damage(self, after: int, last: int, *, unreadable: bool) -> Damage | None:
        """Returns the first damaged row from ``after`` + 1 to ``last``.

        Raises:
            JournalError: a payload cannot be read, which is no damage; but if
                ``unreadable``, it is.
        """
        found: Damage | None = None
        expected = after
        try:
            for row in self._between(after, last, _SELECT):
                expected += 1
                if row[0] != expected:
                    found = found or Damage(expected, "", at_end=False)
                    return found._replace(at_end=False)
                reason = self._wrong(row, unreadable=unreadable)
                if found is None and reason:
                    found = Damage(row[0], reason, at_end=True)
                elif found is not None and not reason:
                    return found._replace(at_end=False)
        except ERRORS as error:
            raise self._unreadable(expected, error) from error
        return found

    def spoilt(self, last: int) -> Iterator[Spoilt]:
        """Yields each damaged row up to ``last``, and the first of missing ones."""
        expected = 0
        for row in self._between(0, last, _SELECT):
            expected += 1
            if row[0] != expected:
                yield Spoilt(expected, "", tells=False)
                expected = row[0]
            reason = self._wrong(row, unreadable=True)
            if reason:
                yield Spoilt(row[0], reason, tells=self._tells(row))

    def _tells(self, row: Values) -> bool:
        """Returns whether a damaged row has only lost its payload.

        The checksum does not say what is wrong. An update's record has a digest of the
        payload: if the payload is sound, what the record says is not.
        """
        _, kind, body, payload, segment, start, size, _, dropped = row
        if not _is_typed(row) or dropped:
            return False
        try:
            record = from_row(kind, body, b"")
            if segment is not None:
                payload = self._segments.read(Place(segment, start, size))
        except (ValueError, KeyError):
            return False
        except JournalError:
            return True  # the segment cannot be read
        if isinstance(record, Decided):
            return content_digest(payload or b"") != record.digest
        return bool(size)

    def _wrong(self, row: Values, *, unreadable: bool) -> str:
        try:
            return self.read(row)[1]
        except JournalError as error:
            if not unreadable:
                raise
            return str(error)

    def wrong_headers(self) -> Iterator[str]:
        """Yields what is wrong with the headers before payloads in segments."""
        query = (
            "SELECT number, segment, start, size FROM records WHERE segment IS NOT NULL"
        )
        for number, *place in self._database.rows(query):
            if all(type(each) is int and 0 <= each < 2**62 for each in place):
                yield from self._segments.wrong_header(number, Place(*place))

    # ------------------------------------------------------------------ copying

    def whole(self, after: int) -> Iterator[WholeRow]:
        """Yields the rows after a number with their payloads, also while a run goes on.

        Raises:
            CorruptJournalError: a row is damaged or missing.
        """
        query = f"{_SELECT} WHERE number > ? ORDER BY number LIMIT {_AT_ONCE}"
        while rows := self._database.rows(query, after):
            for row in rows:
                after += 1
                if row[0] != after:
                    raise CorruptJournalError(
                        f"{self._database.file}: record {after} cannot be copied: it "
                        "is missing"
                    )
                yield self._whole(row)

    def _whole(self, row: Values) -> WholeRow:
        wrong = self._wrong(row, unreadable=True)
        if wrong:  # or the payload was dropped since the row was read
            [row] = self._database.rows(f"{_SELECT} WHERE number = ?", row[0])
            wrong = self._wrong(row, unreadable=True)
        number, kind, body, payload, segment, start, size, check, dropped = row
        if wrong:
            raise CorruptJournalError(
                f"{self._database.file.parent}: record {number} cannot be copied: "
                f"{wrong}; fedserver journal verify says what can be done"
            )
        if segment is not None:
            payload = self._segments.read(Place(segment, start, size))
        return WholeRow(number, kind, body, payload, size, check, bool(dropped))

    def copy_end(self, number: int, target: Path) -> None:
        """Copies this record and all later ones unchanged, with their payloads.

        The file is on disk once it is synced.
        """
        self._copy("WHERE number >= ?", number, target)

    def copy_these(self, numbers: Sequence[int], target: Path) -> None:
        """Copies records unchanged, with what can be read of their payloads."""
        self._copy(_THESE, json.dumps(numbers), target)

    def _copy(self, which: str, value: int | str, target: Path) -> None:
        with writing(target):
            make_private(target)
            copy = connect(target, "mode=rwc")
        try:
            never_wait(copy)
            copy.execute(f"CREATE TABLE records ({_COLUMNS})")
            copy.execute("BEGIN")
            query = f"{_SELECT} {which}"
            for row in self._database.connection.execute(query, (value,)):
                values = list(row)
                if row[4] is not None and _is_typed(row):
                    with contextlib.suppress(JournalError):
                        values[3] = self._segments.read(Place(*row[4:7]))
                copy.execute(_INSERT, values)
            copy.execute("COMMIT")
        except ERRORS as error:
            raise explain(target, error) from error
        finally:
            copy.close()

    # ----------------------------------------------------------------- payloads

    def segments_in_use(self) -> dict[int, int]:
        """Returns the end of the last payload in each segment that rows name."""
        return dict(
            self._database.rows(
                "SELECT segment, max(start + size) FROM records"
                f" WHERE segment IS NOT NULL AND {_IS_PLACE} GROUP BY segment"
            )
        )

    def drop(self, up_to: int) -> None:
        """Drops the payloads of the records up to this one, within a transaction."""
        self._database.connection.execute(
            f"{_DROP} WHERE number <= ? AND dropped = 0 AND size > 0", (up_to,)
        )

    def forget(self, numbers: Sequence[int]) -> None:
        """Marks the payloads of records as dropped; must run within a transaction."""
        self._database.connection.execute(f"{_DROP} {_THESE}", (json.dumps(numbers),))

    def forget_unreadable(self) -> int:
        """Marks payloads whose segment is gone as dropped; returns how many.

        Must run within a transaction.
        """
        forgotten = 0
        for number, end in self.segments_in_use().items():
            try:
                self._segments.require({number: end})
            except JournalError:
                forgotten += self._database.connection.execute(
                    f"{_DROP} WHERE segment = ?", (number,)
                ).rowcount
        return forgotten


def _bare_checksum(number: int, kind: str, body: str) -> int:
    """Returns the CRC-32 of a row whose payload was dropped."""
    return checksum(number, kind, body, b"")


def _is_typed(row: Values) -> bool:
    return tuple(map(type, row)) in _TYPES
