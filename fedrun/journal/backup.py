"""Copies of a run, and how one becomes the run again.

A restored run is an older history: it opens a new epoch under a random name, and
clients then take back what it does not hold (docs/protocol.md). A copy refuses a
plain start, so that nobody goes on from it by mistake.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from fedcore.coordinator.actions import Persist
from fedcore.coordinator.events import HistoryReopened
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.protocol import Epoch
from fedrun.journal.journal import BACKUP, Journal, exists
from fedrun.journal.recover import recover
from fedrun.journal.snapshots import Snapshots
from fedrun.journal.sqlite import SqliteStore

_ATTEMPTS = 5


def backup(folder: Path, target: Path) -> int:
    """Copies a run, also while its server goes on; the number of its last record.

    Raises:
        JournalError: there is no run, or something is in the way.
    """
    _refuse_existing(target)
    for attempt in range(_ATTEMPTS):
        _copy(folder, target)
        store = SqliteStore(target)
        store.note(BACKUP, "yes")
        # A payload may have been recycled between the copies of rows and segments.
        last = store.last
        damage = store.damage(_newest_snapshot(target, last))
        store.close()
        if damage is None:
            return last
        shutil.rmtree(target)
        if attempt == _ATTEMPTS - 1:
            raise CorruptJournalError(
                f"{folder}: record {damage.number} cannot be copied: {damage.reason}"
            )
    raise AssertionError("unreachable")


def restore(source: Path, folder: Path, fresh_epoch: Callable[[], Epoch]) -> Epoch:
    """Makes a backup the run in ``folder``; returns the name of the new history.

    Raises:
        JournalError: there is no backup, or a run in the way.
    """
    _refuse_existing(folder)
    if not exists(source):
        raise JournalError(f"{source}: no backup here")
    _copy(source, folder)
    store = SqliteStore(folder)
    store.note(BACKUP, None)
    store.close()
    journal = Journal.open(folder)
    try:
        coordinator = recover(journal).coordinator
        epoch = fresh_epoch()
        event = HistoryReopened(
            at=coordinator.state.at, fresh_epoch=epoch, reason="restored from a backup"
        )
        actions = coordinator.handle(event)
        journal.append([a.record for a in actions if isinstance(a, Persist)])
    finally:
        journal.close()
    return epoch


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    try:
        store = SqliteStore(source, read_only=True)
        store.copy_to(target / "journal.sqlite3")
        store.close()
        for part in ("snapshots", "models", "segments"):
            if (source / part).is_dir():
                shutil.copytree(source / part, target / part, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise JournalError(f"{target}: cannot copy the run: {error}") from error


def _refuse_existing(folder: Path) -> None:
    if exists(folder):
        raise JournalError(f"{folder}: there is a run already; move it away first")


def _newest_snapshot(folder: Path, last: int) -> int:
    numbers = Snapshots(folder / "snapshots").numbers()
    return max((number for number in numbers if number <= last), default=0)
