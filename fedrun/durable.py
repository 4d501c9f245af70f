"""Makes names and contents survive a power cut.

A file that was synced is lost if its name is not on disk, and a name is on disk when
the folder that it is in was synced.
"""

import contextlib
import os
from pathlib import Path

from fedrun.plain_files import open_to_write

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OTHERS = 0o077  # permissions of other users, which private files lack


def sync_file(path: Path) -> None:
    """Waits until the content of a file is on disk."""
    _sync(path)


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on disk."""
    _sync(folder)


def sync_database(file: Path) -> None:
    """Waits until all that a process before wrote to a SQLite database is on disk.

    A killed process may leave transactions that it did not sync. Their reader relies on
    them: a message that they settle is not written again.
    """
    log = file.with_name(f"{file.name}-wal")
    if log.is_file():
        sync_file(log)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Makes a folder of this mode, and those above it; all their names are on disk.

    The lowest folder that is there already may have been made by a process that was
    killed before it could sync, so its name is synced too.
    """
    missing, place = [], folder
    while not place.exists():
        missing.append(place)
        place = place.parent
    with contextlib.suppress(PermissionError):  # then another user made it
        sync_folder(place.absolute().parent)
    if not missing:
        folder.mkdir(exist_ok=True)  # complains of a file
    for each in reversed(missing):
        each.mkdir(mode=mode if each == folder else 0o777, exist_ok=True)
        sync_folder(each.parent)


def make_private_folder(folder: Path) -> None:
    """Makes a folder durably that only this user can enter."""
    make_folder(folder, PRIVATE_FOLDER)
    with contextlib.suppress(PermissionError):  # it belongs to another user
        if folder.stat().st_mode & OTHERS:
            folder.chmod(PRIVATE_FOLDER)


def make_private(path: Path) -> None:
    """Lets only this user read a file; makes an empty one if there is none.

    SQLite gives the files beside a database the database's own mode.

    Raises:
        OSError: it cannot be opened, or is no regular file of its folder.
    """
    descriptor = open_to_write(path, mode=PRIVATE_FILE)
    try:
        with contextlib.suppress(PermissionError):
            if os.fstat(descriptor).st_mode & OTHERS:
                os.fchmod(descriptor, PRIVATE_FILE)
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
