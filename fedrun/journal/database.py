"""The SQLite file of a journal: records and facts, in durable transactions.

WAL with ``synchronous=FULL``: a committed transaction survives a power cut.
"""

import contextlib
import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedcore.errors import JournalError, JournalVersionError
from fedrun import sqlite
from fedrun.durable import make_private_folder
from fedrun.journal.disk import explain
from fedrun.journal.store import NO_FACTS, Facts
from fedrun.sqlite import connect

FILE = "journal.sqlite3"
CHECK = "check"  # the fact with the checksum of all others
SCHEMA_VERSION = 3  # raised when records, tables or what updates hold change
SCHEMA = """
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


class Database:
    """An open database file.

    Attributes:
        file: its path.
        connection: SQLite's own; use it only to read.
        is_fresh: whether there is no schema yet; the first transaction makes it.
        first_facts: facts that the first transaction of a fresh file writes.
    """

    def __init__(self, file: Path, *, read_only: bool, durable: bool) -> None:
        """Opens the file, and makes it if it is missing.

        Args:
            file: of the database.
            read_only: change nothing; the file must exist.
            durable: a transaction is on disk when it ends.

        Raises:
            JournalError: it cannot be opened.
            JournalVersionError: a newer program wrote it.
        """
        self.file = file
        self.first_facts = NO_FACTS
        try:
            if read_only:
                self.connection = connect_to_read(file)
            else:
                make_private_folder(file.parent)
                self.connection = sqlite.connect_to_write(
                    file, durable=durable, error=JournalError, what="a journal"
                )
        except (*sqlite.ERRORS, OSError) as error:
            raise explain(file, error) from error
        try:
            self.is_fresh = self._is_fresh()
        except BaseException:
            self.close()
            raise

    def _is_fresh(self) -> bool:
        version = self.value("PRAGMA user_version")
        if version not in (0, SCHEMA_VERSION):
            raise JournalVersionError(
                f"{self.file} has schema {version}, and this program reads schema "
                f"{SCHEMA_VERSION}: use the version of latecomer that wrote it, or "
                "start another run (server.journal)"
            )
        try:
            sqlite.require_schema(self.connection, SCHEMA if version else "")
        except sqlite.ERRORS as error:
            raise explain(self.file, error) from error
        return bool(version == 0)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Makes all of the block's changes durable, or none.

        Raises:
            JournalError: SQLite or the operating system failed; nothing was changed.
        """
        try:
            with sqlite.transaction(self.connection):
                if self.is_fresh:
                    self._make_schema()
                yield self.connection
        except (*sqlite.ERRORS, OSError) as error:
            raise explain(self.file, error) from error
        self.is_fresh = False  # SQLite has synced the names of its files, too

    def _make_schema(self) -> None:
        for statement in SCHEMA.split(";"):
            self.connection.execute(statement)
        self.connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        self.put_facts(self.first_facts)

    def put_facts(self, facts: Facts) -> None:
        """Writes facts, and removes those that are None; within a transaction."""
        if not facts:
            return
        put = "INSERT OR REPLACE INTO facts VALUES (?, ?)"
        for key, value in facts.items():
            if value is None:
                self.connection.execute("DELETE FROM facts WHERE key = ?", (key,))
            else:
                self.connection.execute(put, (key, value))
        self.connection.execute(put, (CHECK, self._facts_checksum()))

    def wrong_facts(self) -> bool:
        """Returns whether the facts differ from what was written."""
        return self.fact(CHECK) != self._facts_checksum()

    def facts(self) -> list[tuple[str, str]]:
        """Returns all facts in their order, without the checksum of them."""
        return self.rows(
            "SELECT key, value FROM facts WHERE key <> ? ORDER BY key", CHECK
        )

    def _facts_checksum(self) -> str:
        return hashlib.sha256(repr(self.facts()).encode()).hexdigest()

    def fact(self, key: str) -> str | None:
        """Returns a fact; None if there is none of this key."""
        if self.is_fresh:
            return None
        rows = self.rows("SELECT value FROM facts WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def value(self, query: str) -> Any:
        """Returns the one value that a query finds."""
        return self.rows(query)[0][0]

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Returns all rows that a query finds.

        Raises:
            JournalError: the file cannot be read.
        """
        try:
            return self.connection.execute(query, values).fetchall()
        except sqlite.ERRORS as error:
            raise explain(self.file, error) from error

    def close(self) -> None:
        """Releases the file."""
        self.connection.close()


def never_wait(connection: sqlite3.Connection) -> None:
    """Lets SQLite write without waiting for the disk; the caller syncs the file."""
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")


def connect_to_read(file: Path) -> sqlite3.Connection:
    """Returns a connection that changes nothing, also where nothing can be written."""
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
