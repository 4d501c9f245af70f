"""Repairs a journal: records a cut where it is damaged, and begins a new history."""

import logging
from contextlib import closing
from pathlib import Path

from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Action
from fedcore.coordinator.events import StateRolledBack
from fedcore.errors import CorruptJournalError
from fedcore.protocol import Epoch
from fedcore.typing import Seconds
from fedrun.journal.aside import keep_aside
from fedrun.journal.journal import Journal
from fedrun.journal.recover import recover
from fedrun.journal.soundness import describe_old_damage
from fedrun.journal.store import Loss, split_actions
from fedrun.journal.versions import in_words

_log = logging.getLogger(__name__)


def cut_off(
    journal: Journal, coordinator: Coordinator, at: Seconds, fresh_epoch: Epoch
) -> list[Action]:
    """Cuts off what is damaged; the coordinator opens a new history in its place.

    Both are one transaction. Returns the actions that are left to carry out.
    """
    assert journal.loss is not None
    loss = journal.loss
    if loss.at_end:
        count = loss.last - loss.first + 1
        reason = f"{count} damaged records were cut off the end of the journal"
    else:
        reason = f"the journal was repaired: {loss.reason}"
    event = StateRolledBack(at=at, fresh_epoch=fresh_epoch, reason=reason)
    records, others = split_actions(coordinator.handle(event))
    kept = journal.cut(at, records)
    _log.warning("%s; it is kept in %s", reason, kept)
    return others


def repair(folder: Path, fresh_epoch: Epoch) -> str:
    """Repairs a damaged run; returns sentences about it.

    Damage after the snapshot that a start begins with is cut off. Before it, damaged
    payloads are let go: the snapshot holds what came of them.

    Raises:
        CorruptJournalError: no state can be made, a damaged record says something that
            nothing else tells, or SQLite's pages do not fit together.
    """
    with closing(Journal.open(folder, repairing=True)) as journal:
        said = (
            [] if journal.loss is None else [_cut(journal, journal.loss, fresh_epoch)]
        )
        said += _forget(journal)
        said += _let_go(journal)
    return "\n".join(said) or f"{folder}: there is nothing to repair"


def _cut(journal: Journal, loss: Loss, fresh_epoch: Epoch) -> str:
    """Cuts off what is damaged, and begins a new history."""
    folder, first = journal.folder, journal.store.last + 1
    coordinator = recover(journal).coordinator
    cut_off(journal, coordinator, coordinator.state.at, fresh_epoch)
    return (
        f"{folder}: {loss.reason}\nthe journal ends with record {first - 1} now; what "
        f"came after it is kept in {folder / 'cut'}; the new history is {fresh_epoch}"
    )


def _forget(journal: Journal) -> list[str]:
    """Marks lost payloads that a snapshot covers as dropped; no record is lost."""
    forgotten = journal.store.forget_unreadable()
    if not forgotten:
        return []
    return [
        f"{journal.folder}: {forgotten} payloads up to record "
        f"{journal.store.first_payload()} lie in segments that are missing; a snapshot "
        "covers them, and the run goes on without them"
    ]


def _let_go(journal: Journal) -> list[str]:
    """Keeps damaged payloads that a snapshot covers aside, and marks them as dropped.

    Raises:
        CorruptJournalError: a record is damaged in what it says, or is missing.
    """
    folder, store = journal.folder, journal.store
    start = journal.snapshots.newest_sound(store.last)
    spoilt = store.spoilt(start)
    if not spoilt:
        return []
    if not all(each.tells for each in spoilt):
        raise CorruptJournalError(describe_old_damage(folder, store, spoilt, start))
    numbers = [each.number for each in spoilt]
    kept = keep_aside(
        folder,
        f"{numbers[0]:012d}-payloads",
        lambda to: store.copy_these(numbers, to / "records.sqlite3"),
    )
    store.forget(numbers)
    which = "payload of record" if len(numbers) == 1 else "payloads of the records"
    said = (
        f"{folder}: the {which} {in_words(numbers)} cannot be read; snapshot {start} "
        "holds what came of it, so the model loses nothing and the server starts as "
        f"before. What is left is kept in {kept}. Verify and backup work again; replay "
        "does not, since it needs every payload"
    )
    _log.warning("%s", said)
    return [said]
