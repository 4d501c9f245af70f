"""SQLite files: opened with a write-ahead log, and changed in transactions."""

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from fedcore.errors import LatecomerError
from fedrun.durable import make_private, sync_database, sync_folder
from fedrun.plain_files import require_regular

# Python cannot decode the message of an error that quotes a damaged schema.
ERRORS = (sqlite3.Error, UnicodeDecodeError)
_STATISTICS = {"CREATE TABLE sqlite_stat1(tbl,idx,stat)"}  # of an operator's ANALYZE
_LONG = 200  # characters of the names of what is foreign
_FILES = ("", "-wal", "-shm", "-journal")  # of a database: its own, and beside it


class ForeignSchemaError(sqlite3.DatabaseError):
    """A database holds something else than this program has made."""


def message(error: Exception) -> str:
    """Returns what an error says, also one whose message Python could not decode."""
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode(errors="backslashreplace")
    return str(error)


def connect(file: Path, how: str) -> sqlite3.Connection:
    """Opens a connection that commits when it is told to.

    Args:
        file: of the database.
        how: a part of the URI, such as ``mode=ro``.

    Raises:
        sqlite3.Error: it cannot be opened.
        OSError: it is a link, a pipe or the like, or what lies beside it is.
    """
    for end in _FILES:
        with contextlib.suppress(FileNotFoundError):
            require_regular(file.with_name(f"{file.name}{end}"), links=False)
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
        if durable:
            db.execute("SELECT 1 FROM sqlite_master").fetchone()  # makes the log
            sync_folder(file.absolute().parent)  # SQLite would ignore an error of it
    except BaseException:
        db.close()
        raise
    return db


def require_schema(db: sqlite3.Connection, schema: str) -> None:
    """Checks that a database has the tables of a schema, and nothing else.

    A view, a trigger or a computed column of a foreign database runs when it is read.

    Args:
        db: the database.
        schema: statements that make the tables, and indexes that may be there.

    Raises:
        ForeignSchemaError: it has something else, or lacks a table.
    """
    query = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    found = {
        _plain(str(sql)): f"{what} {name}" for what, name, sql in db.execute(query)
    }
    known = _statements(schema)
    allowed = known | _STATISTICS
    if foreign := sorted(found[each] for each in found.keys() - allowed):
        raise ForeignSchemaError(
            f"holds what this program does not make ({', '.join(foreign)[:_LONG]!a}): "
            "it is damaged, or somebody else has made it"
        )
    if any(each.startswith("CREATE TABLE") for each in known - found.keys()):
        raise ForeignSchemaError(
            "lacks a table: it is damaged, or somebody else has made it"
        )


def _statements(text: str) -> set[str]:
    return {_plain(each) for each in text.split(";") if each.strip()}


def _plain(statement: str) -> str:
    """Returns a statement as SQLite keeps it, without the spaces that mean nothing."""
    one_line = " ".join(statement.replace("IF NOT EXISTS ", "").split())
    return re.sub(r" ?([(),]) ?", r"\1", one_line)


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
