"""The journal of a run: the server is its event log.

One folder holds it all: ``journal.sqlite3``, ``segments/``, ``snapshots/`` and
``models/``. A damaged end is cut off on opening, and a new history then begins;
damage in the middle is an error that names the place.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fedcore.errors import CorruptJournalError, JournalError
from fedcore.params import ParamSpec
from fedcore.trees import Arrays
from fedcore.typing import JSON, Vector
from fedrun.files import load_model, save_model
from fedrun.journal.codec import Configured, Row
from fedrun.journal.disk import writing
from fedrun.journal.snapshots import Snapshots
from fedrun.journal.sqlite import SqliteStore
from fedrun.journal.store import Entry, Store
from fedrun.lock import FolderLock

BACKUP = "backup"  # the fact that marks a copy, which refuses a plain start
KEPT_SNAPSHOTS = 3


class Journal:
    """The records, snapshots and models of one run."""

    def __init__(self, folder: Path, store: Store, lock: FolderLock | None) -> None:
        self.folder = folder
        self.store = store
        self.snapshots = Snapshots(folder / "snapshots")
        self.cut = 0  # damaged records that were cut off the end on opening
        self._lock = lock

    @classmethod
    def create(
        cls,
        folder: Path,
        configured: Configured,
        initial_D: Vector,
        *,
        durable: bool = True,
    ) -> "Journal":
        """A new run whose version 0 is this model."""
        lock = FolderLock(folder, JournalError, "server")
        spec = ParamSpec.from_json(configured.spec)
        model = folder / "models" / "initial.safetensors"
        try:
            journal = cls(folder, SqliteStore(folder, durable=durable), lock)
            if journal.store.last:
                journal.store.close()
                raise JournalError(f"{folder}: there is a journal already")
            with writing(model):
                save_model(model, spec, initial_D)
            journal.append([configured])
        except BaseException:
            lock.release()
            raise
        return journal

    @classmethod
    def open(
        cls, folder: Path, *, read_only: bool = False, restoring: bool = False
    ) -> "Journal":
        """The run in a folder; a backup only to look at it, or to restore it.

        Raises:
            JournalError: there is none, it is in use, or it is a backup.
            CorruptJournalError: it is damaged in the middle.
        """
        if not exists(folder):
            raise JournalError(f"{folder}: no journal here")
        if read_only:
            return cls(folder, SqliteStore(folder, read_only=True), None)
        lock = FolderLock(folder, JournalError, "server")
        try:
            journal = cls(folder, SqliteStore(folder), lock)
            if journal.store.noted(BACKUP) and not restoring:
                raise JournalError(
                    f"{folder} is a backup; bring it back with: fedserver restore "
                    f"{folder} RUN"
                )
            journal._cut_damaged_end()
            journal._drop_foreign_snapshots()
        except BaseException:
            lock.release()
            raise
        return journal

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
        return load_model(self.folder / "models" / "initial.safetensors")

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

    def _drop_foreign_snapshots(self) -> None:
        """Snapshots of records that are not here belong to another history."""
        for number in self.snapshots.numbers():
            if number > self.store.last:
                self.snapshots.remove(number)

    def _cut_damaged_end(self) -> None:
        damage = self.store.damage(self.newest_snapshot() or 0)
        if damage is None:
            return
        if not damage.at_end:
            raise CorruptJournalError(
                f"{self.folder}: record {damage.number} is damaged and sound records "
                f"follow it: {damage.reason}; bring back a backup with "
                "fedserver restore"
            )
        self.cut = self.store.cut(damage.number)


def exists(folder: Path) -> bool:
    """Whether there is a run in this folder."""
    return (folder / "journal.sqlite3").is_file()
