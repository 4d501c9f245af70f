"""Copies of a run, and how one becomes the run again.

A restored run is an older history: it opens a new epoch under a random name, and
clients then take back what it does not hold (docs/protocol.md). A copy refuses a
plain start, so that nobody goes on from it by mistake.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fedcore.coordinator.actions import Persist
from fedcore.coordinator.events import HistoryReopened
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.protocol import Epoch
from fedrun.durable import make_private_folder
from fedrun.journal.journal import BACKUP, Journal, exists
from fedrun.journal.recover import recover
from fedrun.journal.snapshots import Snapshots
from fedrun.journal.sqlite import SqliteStore

_ATTEMPTS = 5
_FOLDERS = ("snapshots", "models", "segments")


def backup(folder: Path, target: Path) -> int:
    """Copies a run, also while its server goes on; the number of its last record.

    Raises:
        JournalError: there is no run, or something is in the way.
    """
    _refuse_existing(target)
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(JournalError):  # the run went on while it was copied
            return _sound_copy(folder, target)
    return _sound_copy(folder, target)


def restore(source: Path, folder: Path, fresh_epoch: Callable[[], Epoch]) -> Epoch:
    """Makes a backup the run in ``folder``; returns the name of the new history.

    Raises:
        JournalError: there is no backup, or a run in the way.
    """
    _refuse_existing(folder)
    if not exists(source):
        raise JournalError(f"{source}: no backup here")
    with _all_or_nothing(folder):
        _copy(source, folder)
        return _open_epoch(folder, fresh_epoch())


def _open_epoch(folder: Path, epoch: Epoch) -> Epoch:
    """Only when the new history is on disk may the copy be served."""
    with contextlib.closing(Journal.open(folder, restoring=True)) as journal:
        coordinator = recover(journal).coordinator
        event = HistoryReopened(
            at=coordinator.state.at, fresh_epoch=epoch, reason="restored from a backup"
        )
        actions = coordinator.handle(event)
        journal.append([a.record for a in actions if isinstance(a, Persist)])
        journal.store.note(BACKUP, None)
    return epoch


def _sound_copy(folder: Path, target: Path) -> int:
    """Copies a run and reads the copy; the number of its last record."""
    with _all_or_nothing(target):
        _copy(folder, target)
        with contextlib.closing(SqliteStore(target)) as store:
            # A payload may have been recycled between the copies of rows and segments.
            damage = store.damage(_newest_snapshot(target, store.last))
            if damage is None:
                return store.last
        raise CorruptJournalError(
            f"{folder}: record {damage.number} cannot be copied: {damage.reason}"
        )


def _copy(source: Path, target: Path) -> None:
    """Copies a run; the copy is marked as one."""
    unfinished = shutil.ignore_patterns(".*.tmp")
    make_private_folder(target)
    try:
        with contextlib.closing(SqliteStore(source, read_only=True)) as store:
            store.copy_to(target / "journal.sqlite3")
        with contextlib.closing(SqliteStore(target, lenient=True)) as store:
            store.note(BACKUP, "yes")
        for part in _FOLDERS:
            if (source / part).is_dir():
                shutil.copytree(
                    source / part, target / part, ignore=unfinished, dirs_exist_ok=True
                )
    except OSError as error:
        raise JournalError(f"{target}: cannot copy the run: {error}") from error


@contextlib.contextmanager
def _all_or_nothing(copy: Path) -> Iterator[None]:
    """On failure, removes what was copied, and nothing else that lies there."""
    try:
        yield
    except BaseException:
        for part in _FOLDERS:
            shutil.rmtree(copy / part, ignore_errors=True)
        for file in copy.glob("journal.sqlite3*"):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            copy.rmdir()
        raise


def _refuse_existing(folder: Path) -> None:
    if exists(folder):
        raise JournalError(f"{folder}: there is a run already; move it away first")


def _newest_snapshot(folder: Path, last: int) -> int:
    numbers = Snapshots(folder / "snapshots").numbers()
    return max((number for number in numbers if number <= last), default=0)
