"""Examines every file of a run: what has a checksum is checked, the rest is named."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from fedcore.errors import CorruptJournalError, JournalError, ModelError
from fedrun.checksums import is_sound
from fedrun.files import load_arrays
from fedrun.journal.journal import Journal
from fedrun.journal.snapshots import COPIED, NAME, read_snapshot
from fedrun.journal.versions import in_words

_OWN = ("journal.", "segments", "snapshots", "models")  # how names of ours begin
_PASSING = ("lock", "operator-socket")  # of a process
_TOLD = {  # what else lies in a run, and why it has no checksum
    "traffic.sqlite3": "traffic.sqlite3 (counts of bytes)",
    "evaluator": "evaluator (a client's own state)",
    "cut": "cut (what was cut off)",
}


class Contents(NamedTuple):
    """The contents of a run's files, in words."""

    checked: tuple[str, ...]
    unchecked: tuple[str, ...]


def examine_all(journal: Journal) -> Contents:
    """Reads every file of a run, and checks all that has a checksum.

    Raises:
        CorruptJournalError: something is damaged or missing; the message has a line for
            each.
    """
    wrong: list[str] = []
    store = journal.store

    def note(check: Callable[[], Iterator[str]]) -> None:
        try:
            wrong.extend(check())
        except JournalError as error:
            wrong.append(str(error))

    def records() -> Iterator[str]:
        journal.require_sound()
        yield from ()

    note(records)
    note(store.wrong_beside_records)
    note(lambda: _wrong_snapshots(journal))
    models = _models(journal, wrong)
    if wrong:
        raise CorruptJournalError("\n".join(wrong))
    parts = ["records", "facts", "mark", "segments"]
    if numbers := journal.snapshots.numbers():
        parts.append(f"snapshots {in_words(numbers)}")
    return Contents((*parts, *models), tuple(_others(journal.folder)))


def _wrong_snapshots(journal: Journal) -> Iterator[str]:
    """Yields which snapshots are damaged, and what a start does without them."""
    snapshots, store = journal.snapshots, journal.store
    damaged: dict[int, str] = {}
    for number in snapshots.numbers():
        try:
            read_snapshot(snapshots.path(number))
        except CorruptJournalError as error:
            if snapshots.path(number).exists():  # a server may have removed it
                damaged[number] = str(error)
    sound = [each for each in snapshots.numbers() if each not in damaged]
    newest = max((each for each in sound if each <= store.last), default=0)
    for number, reason in damaged.items():
        if number < newest:
            yield f"{reason}; a start does not need it"
        elif newest >= store.first_payload():
            state = f"snapshot {newest}" if newest else "version 0"
            yield f"{reason}; a start goes back to {state}, and loses nothing"
        else:
            yield f"{reason}; bring back a backup with fedserver restore"
    for path in sorted((journal.folder / "snapshots").glob(f"*{COPIED}")):
        try:
            if NAME.fullmatch(path.stem):
                read_snapshot(path)
        except CorruptJournalError as error:
            yield f"{error}; remove it, and make the backup again"


def _models(journal: Journal, wrong: list[str]) -> list[str]:
    """Returns the models that are sound; adds a line to ``wrong`` for each other."""
    sound = []
    for path in sorted((journal.folder / "models").glob("[!.]*.safetensors")):
        try:
            if is_sound(*load_arrays(path)):
                sound.append(f"models/{path.name}")
            else:
                wrong.append(f"{path}: its checksum is wrong")
        except ModelError as error:
            wrong.append(str(error))
    return sound


def _others(folder: Path) -> Iterator[str]:
    """Yields what lies beside the journal."""
    names = sorted(path.name for path in folder.iterdir())
    for name in names:
        is_log = name.endswith(("-wal", "-shm"))
        if not (name.startswith((*_OWN, ".")) or name in _PASSING or is_log):
            yield _TOLD.get(name, name)
