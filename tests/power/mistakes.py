"""Mistakes in what is synced and in which order, each of which must be caught.

That of a sync that is not called is not here: a checker does as if it were not there
(:mod:`tests.power.cuts`).
"""

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fedrun.durable import sync_folder
from fedrun.journal import Journal
from fedrun.journal.segments import Segments
from fedrun.journal.sqlite import SqliteStore

Mistake = Callable[[ExitStack], None]
MISTAKES: dict[str, Mistake] = {}


def mistake(function: Mistake) -> Mistake:
    """Registers a mistake under its name."""
    MISTAKES[function.__name__] = function
    return function


def _synchronous(stack: ExitStack, file: str, level: str) -> None:
    """Another setting of SQLite for the files of this name."""
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        def execute(self, statement: str, *rest: Any) -> sqlite3.Cursor:
            if re.match(r"PRAGMA synchronous", statement):
                statement = f"PRAGMA synchronous={level}"
            return super().execute(statement, *rest)

    def connected(name: Any, *rest: Any, **options: Any) -> sqlite3.Connection:
        if file in str(name):
            options["factory"] = Connection
        return connect(name, *rest, **options)

    stack.enter_context(patch.object(sqlite3, "connect", connected))


@mistake
def journal_synchronous_normal(stack: ExitStack) -> None:
    _synchronous(stack, "journal.sqlite3", "NORMAL")


@mistake
def journal_synchronous_off(stack: ExitStack) -> None:
    _synchronous(stack, "journal.sqlite3", "OFF")


@mistake
def client_synchronous_normal(stack: ExitStack) -> None:
    _synchronous(stack, "state.sqlite3", "NORMAL")


@mistake
def client_synchronous_off(stack: ExitStack) -> None:
    _synchronous(stack, "state.sqlite3", "OFF")


@mistake
def payload_synced_after_its_row(stack: ExitStack) -> None:
    sync, append = Segments.sync, SqliteStore.append

    def appended(store: SqliteStore, records: Sequence[Any], *facts: Any) -> int:
        last = append(store, records, *facts)
        sync(store._segments)
        return last

    stack.enter_context(patch.object(Segments, "sync", lambda self: None))
    stack.enter_context(patch.object(SqliteStore, "append", appended))


@mistake
def segment_recycled_before_its_rows_let_go(stack: ExitStack) -> None:
    drop = SqliteStore.drop_payloads

    def dropped(store: SqliteStore, up_to: int) -> None:
        store._db.connection.execute("PRAGMA synchronous=OFF")
        drop(store, up_to)
        store._db.connection.execute("PRAGMA synchronous=FULL")

    stack.enter_context(patch.object(SqliteStore, "drop_payloads", dropped))


@mistake
def snapshots_removed_before_the_cut(stack: ExitStack) -> None:
    keep = Journal._keep_aside

    def kept(journal: Journal, first: int) -> Path:
        folder = keep(journal, first)
        for number in journal.snapshots.numbers():
            if number >= first:
                journal.snapshots.remove(number)
        sync_folder(journal.folder / "snapshots")
        return folder

    stack.enter_context(patch.object(Journal, "_keep_aside", kept))
