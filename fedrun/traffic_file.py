"""Keeps the counted bytes of a run on disk, beside the journal and apart from it.

The file is written every two seconds and never synced: a process that is killed loses
the counts since then.
"""

import contextlib
import errno
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path

from fedrun.durable import make_private
from fedrun.sqlite import ERRORS, connect, message, require_schema, transaction
from fedrun.traffic import WAYS, Lane, Traffic, Way

_log = logging.getLogger(__name__)
LaneRow = tuple[str, Way, str, int, int, int]  # a lane, and its load in order
FILE = "traffic.sqlite3"
_ROWS = 50  # that are inserted at once
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE lanes (
  cid TEXT, way TEXT, codec TEXT,
  transfers INTEGER NOT NULL, payload INTEGER NOT NULL, framed INTEGER NOT NULL,
  PRIMARY KEY (cid, way, codec)
) WITHOUT ROWID;
"""


def _is_of_disk(error: Exception) -> bool:
    """Returns whether the disk is the reason, and not what the file holds."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary one
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)


class TrafficFile:
    """The counted bytes on disk; errors are logged and do not end a run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._db: sqlite3.Connection | None = None
        self._failed = 0  # writes in a row that failed

    def load(self) -> Traffic:
        """Loads the bytes that were written last; none if there is no file."""
        try:
            return self._load()
        except (*ERRORS, OSError) as error:
            self.close()
            if _is_of_disk(error):
                return self._load_without_disk(error)
            _log.warning(
                "%s: %s; bytes are counted from zero", self._path, message(error)
            )
        try:
            for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
                self._path.with_name(name).unlink(missing_ok=True)
            return self._load()
        except (*ERRORS, OSError) as error:
            _log.warning("%s: %s; bytes are not kept", self._path, message(error))
            self.close()
            return Traffic()

    def _load(self) -> Traffic:
        make_private(self._path)
        db = self._db = connect(self._path, "mode=rwc")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=OFF")  # counts are not worth an fsync
        version = db.execute("PRAGMA user_version").fetchone()[0]
        require_schema(db, _SCHEMA if version else "")
        if not version:
            db.executescript(
                f"BEGIN; {_SCHEMA} PRAGMA user_version={_SCHEMA_VERSION}; COMMIT;"
            )
        return _read(db)

    def _load_without_disk(self, error: Exception) -> Traffic:
        """Loads what is there; the file is left alone until another process loads it.

        Args:
            error: why it cannot be written.
        """
        found = None
        if self._path.is_file() and self._path.stat().st_size:
            # A log beside it cannot be read without a file that tells where.
            how = "mode=ro&immutable=1"
            with (
                contextlib.suppress(*ERRORS, OSError),
                closing(connect(self._path, how)) as db,
            ):
                require_schema(db, _SCHEMA)
                found = _read(db)
        counted = "on from those that it holds" if found else "from zero"
        _log.warning(
            "%s: %s; bytes are counted %s, and are not kept until the server starts "
            "again",
            self._path,
            message(error),
            counted,
        )
        return found or Traffic()

    def save(self, traffic: Traffic, others: Iterable[LaneRow] | None = None) -> None:
        """Writes the lanes that have changed.

        Args:
            traffic: the counts.
            others: loads of other lanes, best in the order of the lanes: SQLite
                inserts rows in the order of their keys a quarter faster.
        """
        if self._db is None:
            return
        lanes = traffic.take_fresh()
        if not lanes and others is None:
            return
        rows: Iterator[LaneRow] = (
            (*lane, load.transfers, load.payload, load.framed)
            for lane, load in lanes.items()
        )
        try:
            with transaction(self._db):
                _insert(self._db, chain(rows, others or ()))
            self._failed = 0
        except ERRORS as error:
            traffic.put_back(lanes)  # until the next time
            if not self._failed:
                _log.warning("%s: %s; bytes are counted on", self._path, message(error))
            self._failed += 1

    def close(self) -> None:
        """Releases the file."""
        if self._db is not None:
            self._db.close()
            self._db = None


def _insert(db: sqlite3.Connection, rows: Iterator[LaneRow]) -> None:
    """Inserts many rows by each statement, which takes two thirds of the time."""
    while some := list(islice(rows, _ROWS)):
        marks = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(some))
        db.execute(
            f"INSERT OR REPLACE INTO lanes VALUES {marks}",
            list(chain.from_iterable(some)),
        )


def read_traffic(folder: Path) -> Traffic | None:
    """Reads the counted bytes of a run, also while it is served; None without any."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with closing(connect(path, "mode=ro")) as db:
            if _is_empty(db):
                _log.warning(
                    "%s: it holds no counts: the disk was full when they were to be "
                    "written, or nothing was counted yet",
                    path,
                )
                return None
            require_schema(db, _SCHEMA)
            return _read(db)
    except (*ERRORS, OSError) as error:
        _log.warning("%s: %s", path, message(error))
        return None


def _is_empty(db: sqlite3.Connection) -> bool:
    """Returns whether the tables could not be made."""
    (tables,) = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    return not tables


def _read(db: sqlite3.Connection) -> Traffic:
    traffic = Traffic()
    for cid, way, codec, transfers, payload, framed in db.execute(
        "SELECT cid, way, codec, transfers, payload, framed FROM lanes"
    ):
        counts = transfers, payload, framed
        if way not in WAYS or {*map(type, counts)} != {int} or min(counts) < 0:
            raise sqlite3.DataError(f"a row of {cid!a} holds no counts")
        lane = Lane(cid, way, codec)
        traffic.count(lane, framed=framed, payload=payload, transfers=transfers)
    traffic.take_fresh()
    return traffic
