"""Finds what is damaged or missing in the folder of a run."""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from fedcore.errors import CorruptJournalError
from fedrun.journal import wal
from fedrun.journal.aside import copy_file, keep_aside
from fedrun.journal.database import FILE
from fedrun.journal.disk import reading, writing
from fedrun.journal.segments import read_marks
from fedrun.journal.snapshots import Snapshots
from fedrun.journal.sqlite import SqliteStore
from fedrun.journal.store import Configured, Damage, Loss, Spoilt

BEING_CUT = "being cut"  # the fact that names the first record that was cut off


def refusal(folder: Path, loss: Loss) -> str:
    """Returns a sentence that says what is wrong with a run, and what to do."""
    return (
        f"{folder}: {loss.reason}; bring back a backup with fedserver restore, or go "
        f"on without what is lost: fedserver journal repair {folder}"
    )


def examine(folder: Path, *, repairing: bool) -> Loss | None:
    """Finds what is damaged or missing, before anything else is written.

    Args:
        folder: of the run.
        repairing: count what cannot be read as damaged, too, and end a log at its gap.
    """
    gap = log_gap(folder)
    if gap is not None and not repairing:
        return gap_as_loss(folder, gap)
    with closing(SqliteStore(folder, read_only=True)) as store:
        if repairing:
            store.check_pages()
        snapshots = snapshots_of(folder, store)
        if gap is None:
            found = find_loss(store, snapshots)  # raises if there is nothing at all
        else:
            found = gap_as_loss(folder, gap)
            _keep_database(folder)
            store.prove_loss()
        if repairing:
            start = snapshots.newest_sound(store.last)
        else:
            start = max((n for n in snapshots.numbers() if n <= store.last), default=0)
        damage = store.damage(start, unreadable=repairing)
    if gap is not None:
        _end_log(folder, gap)
    if damage is None:
        return found
    loss = damage_as_loss(damage, max(store.last, found.last if found else 0))
    return loss._replace(at_end=loss.at_end and found is None)


def unsound(
    folder: Path, store: SqliteStore, snapshots: Snapshots, loss: Loss | None
) -> str | None:
    """Reads all records of a run; returns a sentence about what is damaged or missing.

    Args:
        folder: of the run.
        store: of its records.
        snapshots: of its states.
        loss: what was found when it was opened.
    """
    start, damage = 0, store.damage()
    if damage is not None:
        start = snapshots.newest_sound(store.last)
        damage = store.damage(start)  # which stops a start
    if damage is not None:
        found = damage_as_loss(damage, store.last)
        if found.at_end:
            return (
                f"{folder}: {found.reason}; the next start cuts it off, keeps it aside "
                "and begins a new history"
            )
        return refusal(folder, found)
    if loss is not None:
        return refusal(folder, loss)
    spoilt = store.spoilt(start)
    return describe_old_damage(folder, store, spoilt, start) if spoilt else None


def describe_old_damage(
    folder: Path, store: SqliteStore, spoilt: Sequence[Spoilt], start: int
) -> str:
    """Returns a sentence about damage before the snapshot that a start begins with.

    Args:
        folder: of the run.
        store: of its records.
        spoilt: the damaged rows.
        start: the snapshot's number.
    """
    silent = [each for each in spoilt if not each.tells]
    worst = (silent or spoilt)[0]
    wrong = f"damaged: {worst.reason}" if worst.reason else "missing"
    wrong = f"{folder}: record {worst.number} is {wrong}"
    if not _can_start(store):
        return (
            f"{wrong}; a start needs what it says, and no repair can tell; bring back "
            "a backup with fedserver restore, or begin another run with a model in "
            f"{folder / 'models'}"
        )
    wrong += (
        f"; the server still starts, with snapshot {start}, and its model loses "
        "nothing, but verify, replay and backup need this record; bring back a backup "
        "with fedserver restore"
    )
    if silent:
        return f"{wrong}; repair cannot help, since it cannot tell what the record said"
    return f"{wrong}, or go on without its payload: fedserver journal repair {folder}"


def _can_start(store: SqliteStore) -> bool:
    """Returns whether all is readable that a start reads, with a snapshot."""
    try:
        store.find(Configured.__name__)
        for _ in store.entries(payloads=False):
            pass
    except CorruptJournalError:
        return False
    return True


def damage_as_loss(damage: Damage, last: int) -> Loss:
    """Returns a damaged row as the loss of it and all later rows up to ``last``."""
    behind = "" if damage.at_end else " and sound records follow it"
    wrong = f"damaged{behind}: {damage.reason}" if damage.reason else f"missing{behind}"
    reason = f"record {damage.number} is {wrong}"
    return Loss(damage.number, last, reason, at_end=damage.at_end)


def log_gap(folder: Path) -> wal.Gap | None:
    """Returns a gap in SQLite's log, which SQLite would take for the log's end."""
    file, log = folder / FILE, folder / f"{FILE}-wal"
    with reading(log):
        if not file.is_file():
            last = max((mark.number for mark in read_marks(folder)), default=0)
            raise CorruptJournalError(
                f"{file} is missing, and has held {last} records (is the volume "
                "mounted?); bring back a backup with fedserver restore"
            )
        return wal.gap(log, file)


def gap_as_loss(folder: Path, gap: wal.Gap) -> Loss:
    """Returns a gap in the log as the loss of an unknown number of records."""
    later = gap.frames - gap.frame - 1
    return Loss(
        sys.maxsize,
        0,
        f"{FILE}-wal is damaged at byte {gap.offset} (frame {gap.frame}), and "
        f"{later} frames that were written later follow",
    )


def find_loss(store: SqliteStore, snapshots: Snapshots) -> Loss | None:
    """Returns records after the last one that were durable once, if any."""
    found = store.loss()
    newest = max(snapshots.numbers(), default=0)
    if found is None and newest > store.last and not store.volatile:
        name = snapshots.path(newest).name
        reason = f"snapshots/{name} holds record {newest}, the journal's last one is"
        found = Loss(store.last + 1, newest, f"{reason} {store.last}")
    return found


def snapshots_of(folder: Path, store: SqliteStore) -> Snapshots:
    """Returns a run's snapshots, without those of records that are being cut off."""
    return Snapshots(folder / "snapshots", before=store.read_fact_as(int, BEING_CUT))


def _keep_database(folder: Path) -> None:
    """Copies the database and its log as they were found."""

    def copy(kept: Path) -> None:
        for name in (FILE, f"{FILE}-wal"):
            copy_file(folder / name, kept / name)

    keep_aside(folder, "database", copy)


def _end_log(folder: Path, gap: wal.Gap) -> None:
    """Ends SQLite's log where it is damaged.

    SQLite overwrites later frames, and their rest would look like another gap. It syncs
    the new end together with what it writes.
    """
    log = folder / f"{FILE}-wal"
    with writing(log), log.open("r+b") as file:
        file.truncate(gap.offset)
