"""One process at a time in a folder."""

import fcntl
import os
from pathlib import Path

from fedcore.errors import LatecomerError
from fedrun.durable import PRIVATE_FILE, make_private_folder


class FolderLock:
    """Held until closed or until the process ends, however it ends."""

    def __init__(self, folder: Path, error: type[LatecomerError], whose: str) -> None:
        self._descriptor: int | None = None
        try:
            make_private_folder(folder)
            descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
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

    def release(self) -> None:
        """Others may enter."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(folder: Path) -> bool:
    """Whether a process has this folder; nothing is written to find out."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
