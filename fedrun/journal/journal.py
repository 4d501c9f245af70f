"""The journal of a run: the server is its event log.

One folder holds it all: ``journal.sqlite3``, ``segments/``, ``snapshots/`` and
``models/``. Wrong bytes at the very end may be cut off by the next start: they are kept
aside in ``cut/``, and a new history begins. All other damage is an error that names the
place, and so is whatever cannot be read.
"""

import filecmp
import logging
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from fedcore.coordinator.records import Cut
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.params import NO_REST, ParamSpec, Rest
from fedcore.trees import Arrays
from fedcore.typing import JSON, Seconds, Vector
from fedrun.durable import make_folder, make_private, sync_file, sync_folder
from fedrun.files import load_model, load_rest, save_model
from fedrun.journal import wal
from fedrun.journal.codec import Configured, Row
from fedrun.journal.disk import reading, writing
from fedrun.journal.mark import read_marks
from fedrun.journal.snapshots import Snapshots
from fedrun.journal.sqlite import FILE, SqliteStore, connect_to_read
from fedrun.journal.store import NO_FACTS, Damage, Entry, Facts, Loss, Store
from fedrun.lock import FolderLock, is_locked

_log = logging.getLogger(__name__)
BEING_CUT = "being cut"  # the fact that names the first record that was cut off
BACKUP = "backup"  # the fact that marks a copy, which refuses a plain start
KEPT_SNAPSHOTS = 3
PARTS = (
    "journal.mark",
    "journal.sqlite3*",
    "segments",
    "snapshots",
    "models",
    "traffic.sqlite3*",
)


class Journal:
    """The records, snapshots and models of one run."""

    def __init__(self, folder: Path, store: Store, lock: FolderLock | None) -> None:
        self.folder = folder
        self.store = store
        first = store.noted(BEING_CUT)
        self.snapshots = Snapshots(
            folder / "snapshots", before=None if first is None else int(first)
        )
        self.loss: Loss | None = None
        """What is damaged or missing, and hidden; :meth:`cut` must come first."""
        self._lock = lock

    @classmethod
    def create(
        cls,
        folder: Path,
        configured: Configured,
        initial_D: Vector,
        *,
        rest: Rest = NO_REST,
        facts: Facts = NO_FACTS,
        durable: bool = True,
    ) -> "Journal":
        """A new run whose version 0 is this model; it is there whole, or not at all."""
        lock = FolderLock(folder, JournalError, "server")
        spec = ParamSpec.from_json(configured.spec)
        model = folder / "models" / "initial.safetensors"
        try:
            if exists(folder):
                raise JournalError(f"{folder}: there is a journal already")
            with writing(model):
                save_model(model, spec, initial_D, rest=rest, private=True)
            journal = cls(folder, SqliteStore(folder, durable=durable), lock)
            journal.store.append([configured], facts)
        except BaseException:
            lock.release()
            raise
        return journal

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        read_only: bool = False,
        restoring: bool = False,
        repairing: bool = False,
    ) -> "Journal":
        """The run in a folder; a backup only to look at it, or to restore it.

        Args:
            folder: of the run.
            read_only: change nothing; damage is logged, and what is sound can be read.
            restoring: it may be a backup.
            repairing: it may be damaged anywhere; :attr:`loss` says how.

        Raises:
            JournalError: there is none, it is in use, it is a backup, or a part of it
                cannot be read.
            CorruptJournalError: it is damaged, and not just at its very end.
        """
        if not exists(folder):
            raise JournalError(f"{folder}: no journal here")
        if read_only:
            return cls._open_to_read(folder)
        lock = FolderLock(folder, JournalError, "server")
        try:
            loss = _examine(folder, repairing=repairing)
            if loss is not None and not (loss.at_end or repairing):
                raise CorruptJournalError(refusal(folder, loss))
            journal = cls(folder, SqliteStore(folder, lenient=repairing), lock)
            if journal.store.noted(BACKUP) and not restoring:
                raise JournalError(
                    f"{folder} is a backup; bring it back with: fedserver restore "
                    f"{folder} RUN"
                )
            journal._finish_cut()
            journal._hide(loss)
        except BaseException:
            lock.release()
            raise
        return journal

    @classmethod
    def _open_to_read(cls, folder: Path) -> "Journal":
        served = is_locked(folder)  # then it changes, and its server has looked
        gap = None if served else _gap(folder)
        journal = cls(folder, SqliteStore(folder, read_only=True), None)
        if gap is not None:
            journal.loss = _gap_as_loss(folder, gap)
        elif not served:
            journal.loss = _lost(journal)
        if journal.loss is not None:
            _log.warning(
                "%s; what is read here is what there is",
                refusal(folder, journal.loss),
            )
        return journal

    def _hide(self, loss: Loss | None) -> None:
        """What is damaged is not read; it waits to be cut."""
        self.loss = loss
        if loss is not None:
            self.store.hide(min(loss.first, self.store.last + 1))
        elif self.store.volatile:
            for number in self.snapshots.numbers():
                if number > self.store.last:
                    self.snapshots.remove(number)

    def cut(self, at: Seconds, records: Sequence[Row]) -> Path:
        """Cuts what is damaged off, keeps it aside, and goes on with these records.

        The cut itself becomes a record before them, in the same transaction. Returns
        where the rest was put.
        """
        assert self.loss is not None
        loss, first = self.loss, self.store.last + 1
        kept = self._keep_aside(first)
        record = Cut(
            at=at,
            first=first,
            last=max(first, loss.last),
            reason=loss.reason,
            kept=str(kept.relative_to(self.folder)),
        )
        self.store.cut(first, [record, *records], {BEING_CUT: str(first)})
        self._finish_cut()
        self.loss = None
        return kept

    def _keep_aside(self, first: int) -> Path:
        """Copies what is about to be cut off; a folder that was not there before.

        The originals stay until the cut is durable: they are what tells of it.
        """

        def copy(kept: Path) -> None:
            self.store.copy_end(first, kept / "records.sqlite3")
            for number in self.snapshots.numbers():
                if number >= first:
                    path = self.snapshots.path(number)
                    _copy_file(path, kept / path.name)

        return _keep(self.folder, f"{first:012d}", copy)

    def _finish_cut(self) -> None:
        """Snapshots of what was cut off go, before there are others in their place."""
        first = self.store.noted(BEING_CUT)
        if first is None:
            return
        folder = self.folder / "snapshots"
        snapshots = Snapshots(folder)
        for number in snapshots.numbers():
            if number >= int(first):
                snapshots.remove(number)
        if folder.is_dir():
            with writing(folder):
                sync_folder(folder)
        self.store.note(BEING_CUT, None)
        self.snapshots = snapshots

    def require_sound(self) -> None:
        """Reads all that is kept.

        Raises:
            CorruptJournalError: a record is damaged or missing.
        """
        damage = self.store.damage()
        if damage is not None:
            loss = _damaged(damage, self.store.last)
            raise CorruptJournalError(
                f"{self.folder}: {loss.reason}; the next start cuts it off, keeps it "
                "aside and begins a new history"
                if loss.at_end
                else refusal(self.folder, loss)
            )
        if self.loss is not None:
            raise CorruptJournalError(refusal(self.folder, self.loss))

    def append(self, records: Sequence[Row]) -> int:
        """One durable transaction; the number of the last record."""
        return self.store.append(records)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """The records behind a number."""
        return self.store.entries(after)

    def configurations(self) -> list[tuple[int, Configured]]:
        """What the run was told, and when it was told otherwise."""
        found = [
            (entry.number, entry.record)
            for entry in self.store.find(Configured.__name__)
            if isinstance(entry.record, Configured)
        ]
        if not found:
            raise CorruptJournalError(
                f"{self.folder}: the journal has no configuration"
            )
        return found

    def initial(self) -> tuple[ParamSpec, Vector]:
        """Version 0."""
        return load_model(self._version_0)

    def rest(self) -> Rest:
        """What checkpoints of the model hold beside what is trained."""
        return load_rest(self._version_0)

    @property
    def _version_0(self) -> Path:
        return self.folder / "models" / "initial.safetensors"

    def newest_snapshot(self, before: int | None = None) -> int | None:
        """The number of the newest snapshot, or of the newest up to a record."""
        limit = self.store.last if before is None else before
        return max((n for n in self.snapshots.numbers() if n <= limit), default=None)

    def save_snapshot(
        self, number: int, scalars: JSON, arrays: Arrays, keep_bytes: int
    ) -> None:
        """Writes a snapshot, and drops what the budget has no room for.

        Payloads go once a snapshot has them; the snapshots that are kept are the
        newest ones, and the one with which a replay can begin.
        """
        self.snapshots.save(number, scalars, arrays)
        numbers = self.snapshots.numbers()
        newest, older = numbers[-KEPT_SNAPSHOTS:], numbers[:-KEPT_SNAPSHOTS]
        if self.store.payload_bytes() > keep_bytes:
            first = self.store.first_payload()
            self.store.drop_payloads(
                min((n for n in newest if n > first), default=first)
            )
        begins = self.replay_begins()
        for number in older:
            if number != begins:
                self.snapshots.remove(number)

    def replay_begins(self) -> int:
        """The oldest snapshot behind which every payload is still there.

        0 if there is none, or if a replay can begin with version 0.
        """
        first = self.store.first_payload()
        if not first:
            return 0
        return min((n for n in self.snapshots.numbers() if n >= first), default=0)

    def close(self) -> None:
        """Releases the folder."""
        self.store.close()
        if self._lock is not None:
            self._lock.release()


def exists(folder: Path) -> bool:
    """Whether there is a run in this folder, whole or not.

    What a process left that was killed while it made one is none.

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
        db = connect_to_read(file)
        try:
            if not db.execute("PRAGMA user_version").fetchone()[0]:
                return bool(db.execute("SELECT 1 FROM sqlite_master").fetchone())
            return bool(db.execute("SELECT 1 FROM records LIMIT 1").fetchone())
        finally:
            db.close()
    except sqlite3.Error:
        return True  # whatever it is, it was something


def remove(folder: Path) -> None:
    """Removes a run from its folder, and nothing else that lies there."""
    with writing(folder):
        for part in PARTS:
            for path in folder.glob(part):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)


def refusal(folder: Path, loss: Loss) -> str:
    """What is wrong with a run, and what to do."""
    return (
        f"{folder}: {loss.reason}; bring back a backup with fedserver restore, or go "
        f"on without what is lost: fedserver journal repair {folder}"
    )


def _examine(folder: Path, *, repairing: bool) -> Loss | None:
    """What is damaged or missing, before anything is written."""
    gap = _gap(folder)
    if gap is not None and not repairing:
        return _gap_as_loss(folder, gap)
    with closing(SqliteStore(folder, read_only=True)) as store:
        if repairing:
            store.check_pages()
        journal = Journal(folder, store, None)
        if gap is None:
            lost = _lost(journal)  # raises if there is nothing at all
        else:
            lost = _gap_as_loss(folder, gap)
            _keep_database(folder)
            store.prove_loss()
        start = journal.newest_snapshot() or 0
        damage = store.damage(start, unreadable=repairing)
    if gap is not None:
        _end_log(folder, gap)
    if damage is None:
        return lost
    loss = _damaged(damage, max(journal.store.last, lost.last if lost else 0))
    return loss._replace(at_end=loss.at_end and lost is None)


def _damaged(damage: Damage, last: int) -> Loss:
    behind = "" if damage.at_end else " and sound records follow it"
    wrong = f"damaged{behind}: {damage.reason}" if damage.reason else f"missing{behind}"
    reason = f"record {damage.number} is {wrong}"
    return Loss(damage.number, last, reason, at_end=damage.at_end)


def _gap(folder: Path) -> wal.Gap | None:
    """Whether SQLite's log has a gap, which SQLite would take for its end."""
    file, log = folder / FILE, folder / f"{FILE}-wal"
    with reading(log):
        if not file.is_file():
            last = max((mark.number for mark in read_marks(folder)), default=0)
            raise CorruptJournalError(
                f"{file} is missing, and has held {last} records (is the volume "
                "mounted?); bring back a backup with fedserver restore"
            )
        return wal.gap(log, file)


def _gap_as_loss(folder: Path, gap: wal.Gap) -> Loss:
    later = gap.frames - gap.frame - 1
    return Loss(
        sys.maxsize,
        0,
        f"{FILE}-wal is damaged at byte {gap.offset} (frame {gap.frame}), and "
        f"{later} frames that were written later follow",
    )


def _lost(journal: Journal) -> Loss | None:
    """Records that were durable once, behind the last one."""
    store = journal.store
    lost = store.loss()
    newest = max(journal.snapshots.numbers(), default=0)
    if lost is None and newest > store.last and not store.volatile:
        name = journal.snapshots.path(newest).name
        reason = f"snapshots/{name} holds record {newest}, the journal's last one is"
        lost = Loss(store.last + 1, newest, f"{reason} {store.last}")
    return lost


def _keep_database(folder: Path) -> None:
    """Copies the database and its log as they were found."""

    def copy(kept: Path) -> None:
        for name in (FILE, f"{FILE}-wal"):
            _copy_file(folder / name, kept / name)

    _keep(folder, "database", copy)


def _end_log(folder: Path, gap: wal.Gap) -> None:
    """SQLite's log ends where it is damaged.

    It writes over what lies behind; the rest of that would look like another gap. With
    what it writes it syncs the end, too.
    """
    log = folder / f"{FILE}-wal"
    with writing(log), log.open("r+b") as file:
        file.truncate(gap.offset)


def _keep(folder: Path, name: str, copy: Callable[[Path], None]) -> Path:
    """What ``copy`` puts into a folder below ``cut``; it is there whole, durably.

    What an earlier call left makes room, or is taken if it is whole and the same.
    """
    parent = folder / "cut"
    making, kept, count = parent / ".making", parent / name, 1
    with writing(parent):
        if making.exists():
            shutil.rmtree(making)
        make_folder(making)
        copy(making)
        for file in making.iterdir():
            sync_file(file)
        sync_folder(making)
        while kept.exists() and not _is_same(kept, making):
            count += 1
            kept = parent / f"{name}-{count}"
        if kept.exists():
            shutil.rmtree(making)
        else:
            making.rename(kept)
        sync_folder(parent)
    return kept


def _is_same(folder: Path, other: Path) -> bool:
    """Whether two folders hold the same files."""
    names = sorted(path.name for path in folder.iterdir())
    if names != sorted(path.name for path in other.iterdir()):
        return False
    return all(filecmp.cmp(folder / n, other / n, shallow=False) for n in names)


def _copy_file(source: Path, target: Path) -> None:
    """A copy for nobody but this user."""
    make_private(target)
    shutil.copyfile(source, target)
