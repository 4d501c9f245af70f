"""Makes names and contents survive a power cut.

A file that was synced is lost if its name is not on disk, and a name is on disk when
the folder that it is in was synced.
"""

import contextlib
import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """The content of a file is on disk."""
    _sync(path)


def sync_folder(folder: Path) -> None:
    """The names in a folder are on disk."""
    _sync(folder)


def sync_database(file: Path) -> None:
    """What the next process finds in a SQLite database is on disk.

    A process that was killed may have left transactions that it could not sync. Who
    reads them relies on them: a message that they settle is not written once more.
    SQLite itself syncs the name of its log, before it writes into it.
    """
    log = file.with_name(f"{file.name}-wal")
    if log.is_file():
        sync_file(log)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Makes a folder and those above it; the names of all of them are on disk.

    The lowest folder that is there already may have been made by a process that was
    killed before it could sync, so its name is synced too.
    """
    missing, place = [], folder.absolute()
    while not place.exists():
        missing.append(place)
        place = place.parent
    with contextlib.suppress(PermissionError):  # then somebody else made it
        sync_folder(place.parent)
    if not missing:
        folder.mkdir(exist_ok=True)  # complains of a file
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)
        sync_folder(each.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
