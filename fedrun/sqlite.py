"""SQLite files: opened with a write-ahead log, and changed in transactions."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from fedcore.errors import LatecomerError
from fedrun.durable import make_private, sync_database

# Python cannot decode the message of an error that quotes a damaged schema.
ERRORS = (sqlite3.Error, UnicodeDecodeError)


def message(error: Exception) -> str:
    """Returns what an error says, also one whose message Python could not decode."""
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode(errors="backslashreplace")
    return str(error)


def connect(file: Path, how: str) -> sqlite3.Connection:
    """Opens a connection that commits when it is told to.

    ``how`` is a part of the URI, such as ``mode=ro``.
    """
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?{how}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=5.0,
    )


def connect_to_write(
    file: Path, *, durable: bool, error: type[LatecomerError], what: str
) -> sqlite3.Connection:
    """Opens a private file, and makes it if it is missing.

    Args:
        file: of the database.
        durable: a transaction is on disk when it ends.
        error: is raised if the file system cannot hold a write-ahead log.
        what: the content of the file, for the message.

    Raises:
        sqlite3.Error, OSError: the file cannot be opened.
    """
    make_private(file)
    sync_database(file)
    db = connect(file, "mode=rwc")
    try:
        mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise error(
                f"{file}: this file system cannot hold {what}: SQLite's write-ahead "
                "log needs shared memory there, expected journal_mode wal, got "
                f"{mode}; use a local disk"
            )
        db.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
    except BaseException:
        db.close()
        raise
    return db


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Makes all of the block's changes, or none.

    Raises:
        sqlite3.Error: SQLite failed; nothing was changed.
    """
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(*ERRORS):
            if db.in_transaction:
                db.execute("ROLLBACK")
        raise
