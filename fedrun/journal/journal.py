"""The journal of a run: the server is its event log.

One folder holds it all: ``journal.sqlite3``, ``segments/``, ``snapshots/`` and
``models/``. Wrong bytes at the very end may be cut off by the next start: they are kept
aside in ``cut/``, and a new history begins. All other damage is an error that names the
place, and so is whatever cannot be read.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedcore.coordinator.events import Cut
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.params import NO_REST, ParamSpec, Rest
from fedcore.trees import Arrays
from fedcore.typing import JSON, Seconds, Vector
from fedrun.durable import sync_folder
from fedrun.files import load_model, load_rest, save_model
from fedrun.journal.aside import copy_file, keep_aside
from fedrun.journal.disk import writing
from fedrun.journal.folder import exists
from fedrun.journal.snapshots import Snapshots
from fedrun.journal.soundness import (
    BEING_CUT,
    examine,
    find_loss,
    gap_as_loss,
    log_gap,
    refusal,
    snapshots_of,
    unsound,
)
from fedrun.journal.sqlite import SqliteStore
from fedrun.journal.store import NO_FACTS, Configured, Entry, Facts, Loss, Row
from fedrun.lock import FolderLock, is_locked

_log = logging.getLogger(__name__)
BACKUP = "backup"  # the fact that marks a copy, which refuses a plain start
KEPT_SNAPSHOTS = 3


class Journal:
    """The records, snapshots and models of one run."""

    def __init__(
        self, folder: Path, store: SqliteStore, lock: FolderLock | None
    ) -> None:
        self.folder = folder
        self.store = store
        self.snapshots = snapshots_of(folder, store)
        self.loss: Loss | None = None
        """Records that are damaged or missing; they are hidden until :meth:`cut`."""
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
        """Makes a new run with this model as version 0, whole or not at all."""
        spec = ParamSpec.from_json(configured.spec)
        model = folder / "models" / "initial.safetensors"
        with _lock(folder) as lock:
            if exists(folder):
                raise JournalError(f"{folder}: there is a journal already")
            with writing(model):
                save_model(model, spec, initial_D, rest=rest, private=True)
            journal = cls(folder, SqliteStore(folder, durable=durable), lock)
            journal.store.append([configured], facts)
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
        """Opens the run in a folder; a backup only to look at it, or to restore it.

        Args:
            folder: of the run.
            read_only: change nothing; damage is logged, and what is sound can be read.
            restoring: accept a backup.
            repairing: accept damage anywhere; :attr:`loss` says what it is.

        Raises:
            JournalError: there is none, it is in use, it is a backup, or a part of it
                cannot be read.
            CorruptJournalError: it is damaged, and not just at its very end.
        """
        if not exists(folder):
            raise JournalError(f"{folder}: no journal here")
        if read_only:
            return cls._open_to_read(folder)
        with _lock(folder) as lock:
            loss = examine(folder, repairing=repairing)
            if loss is not None and not (loss.at_end or repairing):
                raise CorruptJournalError(refusal(folder, loss))
            journal = cls(folder, SqliteStore(folder, lenient=repairing), lock)
            if journal.store.read_fact(BACKUP) and not restoring:
                raise JournalError(
                    f"{folder} is a backup; bring it back with: fedserver restore "
                    f"{folder} RUN"
                )
            journal._finish_cut()
            journal._hide(loss)
        return journal

    @classmethod
    def _open_to_read(cls, folder: Path) -> "Journal":
        served = is_locked(folder)  # then it changes, and its server has looked
        gap = None if served else log_gap(folder)
        journal = cls(folder, SqliteStore(folder, read_only=True), None)
        if gap is not None:
            journal.loss = gap_as_loss(folder, gap)
        elif not served:
            journal.loss = find_loss(journal.store, journal.snapshots)
        if journal.loss is not None:
            _log.warning(
                "%s; only the sound records are read", refusal(folder, journal.loss)
            )
        return journal

    def _hide(self, loss: Loss | None) -> None:
        """Hides what is damaged until it is cut."""
        self.loss = loss
        if loss is not None:
            self.store.hide(min(loss.first, self.store.last + 1))
        elif self.store.volatile:
            for number in self.snapshots.numbers():
                if number > self.store.last:
                    self.snapshots.remove(number)

    def cut(self, at: Seconds, records: Sequence[Row]) -> Path:
        """Cuts off what is damaged, and appends these records.

        A record of the cut comes before them, in the same transaction. Returns the
        folder in which the damaged part is kept.
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
        """Copies what is about to be cut off; returns the folder of the copy.

        The originals stay until the cut is durable, since they prove the loss.
        """

        def copy(kept: Path) -> None:
            self.store.copy_end(first, kept / "records.sqlite3")
            for number in self.snapshots.numbers():
                if number >= first:
                    path = self.snapshots.path(number)
                    copy_file(path, kept / path.name)

        return keep_aside(self.folder, f"{first:012d}", copy)

    def _finish_cut(self) -> None:
        """Removes snapshots of what was cut off, before others take their place."""
        first = self.store.read_fact_as(int, BEING_CUT)
        if first is None:
            return
        folder = self.folder / "snapshots"
        snapshots = Snapshots(folder)
        for number in snapshots.numbers():
            if number >= first:
                snapshots.remove(number)
        if folder.is_dir():
            with writing(folder):
                sync_folder(folder)
        self.store.note(BEING_CUT, None)
        self.snapshots = snapshots

    def require_sound(self) -> None:
        """Reads and checks all records.

        Raises:
            CorruptJournalError: a record is damaged or missing.
        """
        wrong = unsound(self.folder, self.store, self.snapshots, self.loss)
        if wrong is not None:
            raise CorruptJournalError(wrong)

    def append(self, records: Sequence[Row]) -> int:
        """Appends records in one durable transaction; returns the last one's number."""
        return self.store.append(records)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Yields the records after a number."""
        return self.store.entries(after)

    def configurations(self) -> list[tuple[int, Configured]]:
        """Returns the configs of the run, each with the number of its record."""
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
        """Returns the model's layout and version 0."""
        return load_model(self._version_0)

    def rest(self) -> Rest:
        """Returns the tensors that checkpoints hold beside those that are trained."""
        return load_rest(self._version_0)

    @property
    def _version_0(self) -> Path:
        return self.folder / "models" / "initial.safetensors"

    def newest_snapshot(self, before: int | None = None) -> int | None:
        """Returns the number of the newest snapshot, at most up to a record."""
        limit = self.store.last if before is None else before
        return max((n for n in self.snapshots.numbers() if n <= limit), default=None)

    def save_snapshot(
        self, number: int, scalars: JSON, arrays: Arrays, keep_bytes: int
    ) -> None:
        """Writes a snapshot, and drops payloads beyond ``keep_bytes``.

        The newest snapshots are kept, with the payloads after the oldest of them, since
        a newer one may turn out to be damaged, and the one with which a replay can
        begin.
        """
        self.snapshots.save(number, scalars, arrays)
        numbers = self.snapshots.numbers()
        newest, older = numbers[-KEPT_SNAPSHOTS:], numbers[:-KEPT_SNAPSHOTS]
        if self.store.payload_bytes() > keep_bytes:
            self.store.drop_payloads(newest[0])
        begins = self.replay_begins()
        for number in older:
            if number != begins:
                self.snapshots.remove(number)

    def replay_begins(self) -> int:
        """Returns the oldest snapshot after which every payload is still there.

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


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[FolderLock]:
    """Locks the folder of a run; releases it again if the block raises."""
    lock = FolderLock(folder, JournalError, "server")
    try:
        yield lock
    except BaseException:
        lock.release()
        raise
