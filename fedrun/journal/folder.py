"""Looks whether a folder holds a run, and removes one."""

import contextlib
import os
import shutil
from contextlib import closing
from pathlib import Path

from fedcore.errors import JournalError
from fedrun.journal import wal
from fedrun.journal.database import FILE, connect_to_read
from fedrun.journal.disk import reading, writing
from fedrun.journal.segments import read_marks
from fedrun.plain_files import kind_of, require_regular
from fedrun.sqlite import ERRORS

PARTS = (
    "journal.mark",
    "journal.sqlite3*",
    "segments",
    "snapshots",
    "models",
    "traffic.sqlite3*",
)
_FOLDERS = ("segments", "snapshots", "models")
_OTHERS = ("cut", "evaluator")  # folders with folders, or of another owner
_FILES = ("journal.mark", "journal.sqlite3", "traffic.sqlite3", "lock")


def require_own(folder: Path) -> None:
    """Checks that the parts of a run are plain files and folders of its own.

    A run that somebody else has made is read and written like any other. Nothing in it
    leads out of it, waits for another process, or acts on a device.

    Raises:
        JournalError: a part is something else; the message says which and what.
    """
    with reading(folder):
        for entry in _entries(folder):
            if entry.name in _OTHERS:
                _require(entry, "a folder")
            elif entry.name in _FOLDERS:
                _require(entry, "a folder")
                for inner in _entries(Path(entry.path)):
                    _require(inner, "")
            elif entry.name.startswith(_FILES):
                _require(entry, "")


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Returns what is in a folder; nothing if there is no such folder."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _require(entry: os.DirEntry[str], expected: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # its server has just removed it
        kind = kind_of(entry.stat(follow_symlinks=False).st_mode)
        if kind != expected:
            raise JournalError(
                f"{entry.path} is {kind or 'a file'}; expected {expected or 'a file'}: "
                "all that belongs to a run lies in its folder"
            )
        if not kind:
            require_regular(Path(entry.path), links=False)


def exists(folder: Path) -> bool:
    """Returns whether there is a run in this folder, whole or not.

    What a process left that was killed while it made a run does not count.

    Raises:
        JournalError: the folder cannot be read, or holds something else than files.
    """
    require_own(folder)
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
    except (JournalError, *ERRORS):
        return True  # an unreadable file is not nothing


def remove(folder: Path) -> None:
    """Removes a run from its folder, and nothing else that lies there."""
    require_own(folder)
    with writing(folder):
        for part in PARTS:
            for path in folder.glob(part):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
