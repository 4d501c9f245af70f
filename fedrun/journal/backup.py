"""Makes copies of a run, and restores a run from one.

A restored run is an older history: it opens a new epoch under a random name, and
clients then take back what it does not hold (docs/protocol.md). A copy refuses a
plain start, so that nobody serves it by mistake.

A copy is a complete journal. A backup that is interrupted leaves a copy that can be
restored, in its old or its new state: snapshots are copied first, under another name;
then all rows in one transaction; then the snapshots get their names. A second backup
adds what is new.
"""

import contextlib
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fedcore.coordinator.events import StateRolledBack
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.protocol import Epoch
from fedrun.durable import make_folder, sync_file, sync_folder
from fedrun.journal.disk import writing
from fedrun.journal.folder import exists
from fedrun.journal.journal import BACKUP, Journal
from fedrun.journal.recover import recover
from fedrun.journal.snapshots import COPIED, NAME, Snapshots, read_snapshot
from fedrun.journal.soundness import BEING_CUT
from fedrun.journal.sqlite import HISTORY, SqliteStore
from fedrun.journal.store import Configured, WholeRow, split_actions
from fedrun.lock import FolderLock
from fedrun.plain_files import replacing

_log = logging.getLogger(__name__)
_ATTEMPTS = 5
_FOLDERS = ("snapshots", "models", "segments")
_COPY, _RESTORING = "yes", "restoring"  # what the fact BACKUP says


class _MovedOnError(JournalError):
    """The run went on while it was copied, and the parts do not fit together."""


def backup(folder: Path, target: Path) -> int:
    """Copies a run, also while its server goes on; returns its last record's number.

    A second backup of the same history to the same folder adds what is new.

    Raises:
        JournalError: there is no run, or something else is in the way.
    """
    return _copy(folder, target, _COPY)


def restore(source: Path, folder: Path, fresh_epoch: Callable[[], Epoch]) -> Epoch:
    """Restores a backup into ``folder``; returns the name of the new history.

    If a call was interrupted, the same call resumes it.

    Raises:
        JournalError: there is no backup, or there is a run in ``folder``.
    """
    if not exists(source):
        raise JournalError(f"{source}: no backup here")
    _copy(source, folder, _RESTORING)
    with _all_or_nothing(folder):
        return _open_epoch(folder, fresh_epoch())


def _open_epoch(folder: Path, epoch: Epoch) -> Epoch:
    """Opens a new history, durably; only then may the copy be served."""
    with contextlib.closing(Journal.open(folder, restoring=True)) as journal:
        coordinator = recover(journal).coordinator
        event = StateRolledBack(
            at=coordinator.state.at, fresh_epoch=epoch, reason="restored from a backup"
        )
        records, _ = split_actions(coordinator.handle(event))
        journal.store.append(records, {BACKUP: None})
    return epoch


def _copy(source: Path, target: Path, purpose: str) -> int:
    """Copies a run, or what is new in it; marks the copy as one."""
    with contextlib.closing(SqliteStore(source, read_only=True)) as old:
        if old.read_fact(BEING_CUT) is not None:
            raise JournalError(
                f"{source}: its server ended while it cut records off; start it again, "
                f"or say: fedserver journal repair {source}"
            )
        is_new = not exists(target)
        if not is_new:
            _require_beginning(old, source, target, purpose)
        with _all_or_nothing(target) if is_new else contextlib.nullcontext():
            lock = FolderLock(target, JournalError, "copy")
            try:
                return _try_often(old, source, target, purpose)
            finally:
                lock.release()


def _require_beginning(
    old: SqliteStore, source: Path, target: Path, purpose: str
) -> None:
    """Checks that ``target`` holds a beginning of the run that is copied.

    Raises:
        JournalError: it is something else.
    """
    with contextlib.closing(SqliteStore(target, read_only=True)) as there:
        if there.read_fact(BACKUP) != purpose:
            raise JournalError(f"{target}: there is a run already; move it away first")
        here, known = _run_of(old), _run_of(there)
        if here != known:
            raise JournalError(
                f"{target} is a copy of run {known}, {source} is run {here}: copy it "
                "into another folder"
            )
        last = next(there.whole_rows(there.last - 1))
        same = next(old.whole_rows(there.last - 1), None)
        if (
            there.read_fact(HISTORY) != old.read_fact(HISTORY)
            or same is None
            or (same.kind, same.body) != (last.kind, last.body)
            or (same.check != last.check and same.dropped == last.dropped)
        ):
            raise JournalError(
                f"{target} is a copy of another history of run {known}: {source} was "
                "restored or repaired since; copy it into another folder"
            )


def _run_of(store: SqliteStore) -> str:
    first = store.find(Configured.__name__)[0].record
    assert isinstance(first, Configured)
    return first.run_id


def _try_often(old: SqliteStore, source: Path, target: Path, purpose: str) -> int:
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(_MovedOnError):
            return _copy_once(old, source, target, purpose)
    return _copy_once(old, source, target, purpose)


def _copy_once(old: SqliteStore, source: Path, target: Path, purpose: str) -> int:
    with writing(target):
        try:
            _copy_models(source, target)
            _copy_snapshots(source, target)
        except FileNotFoundError as error:
            raise _MovedOnError(f"{target}: cannot copy the run: {error}") from error
        with contextlib.closing(SqliteStore(target)) as new:
            dropped = _copy_rows(old, new, target, purpose)
            _name_snapshots(target, new.last)
            if dropped > new.first_payload():
                new.drop_payloads(dropped)
            _remove_older(source, target, new.last)
            return new.last


def _copy_models(source: Path, target: Path) -> None:
    """Copies the models; version 0 never changes, so it is copied once."""
    for file in sorted((source / "models").glob("[!.]*.safetensors")):
        place = target / "models" / file.name
        if file.stem != "initial" or not place.exists():
            _copy_file(file, place)


def _copy_rows(old: SqliteStore, new: SqliteStore, target: Path, purpose: str) -> int:
    """Copies new rows; returns the number up to which payloads were dropped."""
    dropped = old.first_payload()
    newest = max(_find_temporary(target), default=0)
    newest = max(newest, *Snapshots(target / "snapshots").numbers(), 0)

    def check() -> Iterator[WholeRow]:
        for row in old.whole_rows(new.last):
            if row.dropped and row.number > newest:
                raise _MovedOnError(
                    f"{target}: cannot copy the run: payload {row.number} was dropped"
                )
            yield row

    new.take_over(check(), {**old.facts(), BACKUP: purpose})
    return dropped if dropped <= newest else 0


def _copy_snapshots(source: Path, target: Path) -> None:
    """Copies new snapshots, under names that no program reads."""
    there = Snapshots(target / "snapshots")
    for number, path in _snapshots_of(source).items():
        if number not in there.numbers() and number not in _find_temporary(target):
            copy = _temporary_path(target, number)
            _copy_file(path, copy)
            try:
                read_snapshot(copy)
            except CorruptJournalError as error:
                _log.warning("%s: %s; it is left out of the copy", source, error)
                copy.unlink()


def _snapshots_of(source: Path) -> dict[int, Path]:
    """Returns all snapshots, also those of a copy that was interrupted."""
    snapshots = Snapshots(source / "snapshots")
    named = {number: snapshots.path(number) for number in snapshots.numbers()}
    return {**_find_temporary(source), **named}


def _find_temporary(folder: Path) -> dict[int, Path]:
    found = (folder / "snapshots").glob(f"*{COPIED}")
    return {int(path.stem): path for path in found if NAME.fullmatch(path.stem)}


def _temporary_path(folder: Path, number: int) -> Path:
    return folder / "snapshots" / f"{number:012d}{COPIED}"


def _name_snapshots(target: Path, last: int) -> None:
    """Gives the copied snapshots their names, once the rows are there."""
    for number, path in _find_temporary(target).items():
        if number <= last:
            path.rename(Snapshots(target / "snapshots").path(number))
    if (target / "snapshots").is_dir():
        sync_folder(target / "snapshots")


def _remove_older(source: Path, target: Path, last: int) -> None:
    """Removes snapshots that the run itself does not need any more."""
    there, kept = Snapshots(target / "snapshots"), _snapshots_of(source)
    newest = max((number for number in there.numbers() if number <= last), default=0)
    for number in there.numbers():
        if number not in kept and number != newest:
            there.remove(number)


def _copy_file(source: Path, target: Path) -> None:
    """Copies a file durably; the target is there whole or not at all."""
    make_folder(target.parent)
    with replacing(target, private=True) as temporary:
        shutil.copyfile(source, temporary)
        sync_file(temporary)
    sync_folder(target.parent)


@contextlib.contextmanager
def _all_or_nothing(copy: Path) -> Iterator[None]:
    """Removes what was copied if the block fails, and nothing else."""
    try:
        yield
    except BaseException:
        for part in _FOLDERS:
            shutil.rmtree(copy / part, ignore_errors=True)
        for name in ("journal.sqlite3*", "journal.mark", "lock"):
            for file in copy.glob(name):
                file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            copy.rmdir()
        raise
