"""Looks whether a folder holds a run, and removes one."""

import shutil
from contextlib import closing
from pathlib import Path

from fedrun.journal import wal
from fedrun.journal.database import FILE, connect_to_read
from fedrun.journal.disk import reading, writing
from fedrun.journal.mark import read_marks
from fedrun.sqlite import ERRORS

PARTS = (
    "journal.mark",
    "journal.sqlite3*",
    "segments",
    "snapshots",
    "models",
    "traffic.sqlite3*",
)


def exists(folder: Path) -> bool:
    """Returns whether there is a run in this folder, whole or not.

    What a process left that was killed while it made a run does not count.

    Raises:
        JournalError: the folder cannot be read.
    """
    file = folder / FILE
    with reading(folder):
        if read_marks(folder):
            return True
        if not file.is_file():
            return False
        if file.with_name(f"{FILE}-journal").is_file():
            return False  # it was about to get its log, before its first record
        if wal.gap(file.with_name(f"{FILE}-wal"), file) is not None:
            return True
    try:
        with closing(connect_to_read(file)) as db:
            if not db.execute("PRAGMA user_version").fetchone()[0]:
                return bool(db.execute("SELECT 1 FROM sqlite_master").fetchone())
            return bool(db.execute("SELECT 1 FROM records LIMIT 1").fetchone())
    except ERRORS:
        return True  # an unreadable file is not nothing


def remove(folder: Path) -> None:
    """Removes a run from its folder, and nothing else that lies there."""
    with writing(folder):
        for part in PARTS:
            for path in folder.glob(part):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
