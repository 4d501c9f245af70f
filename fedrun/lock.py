"""Locks a folder, so that one process at a time uses it.

A process that is forked, as one that reads data ahead, does not hold the lock: it may
outlive a process that is killed, which is to be started again at once.
"""

import fcntl
import os
from pathlib import Path
from weakref import WeakSet

from fedcore.errors import LatecomerError
from fedrun.durable import make_private_folder
from fedrun.plain_files import open_to_read, open_to_write

_held: "WeakSet[FolderLock]" = WeakSet()


class FolderLock:
    """A lock on a folder, until it is released or the process ends."""

    def __init__(self, folder: Path, error: type[LatecomerError], whose: str) -> None:
        self._descriptor: int | None = None
        try:
            make_private_folder(folder)
            descriptor = open_to_write(folder / "lock")
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise error(f"{folder}: cannot be written: {reason}") from problem
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise error(
                f"{folder} is in use by another {whose} (process {owner})"
            ) from None
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        except OSError as problem:
            os.close(descriptor)
            reason = problem.strerror or str(problem)
            raise error(f"{folder}: cannot be written: {reason}") from problem
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Releases the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _let_go() -> None:
    """Closes the descriptors of a forked process, and leaves the parent's lock."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go)


def is_locked(folder: Path) -> bool:
    """Returns whether a process has locked a folder; writes nothing."""
    try:
        descriptor = open_to_read(folder / "lock", links=False)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
