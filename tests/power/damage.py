"""A run that is damaged, then cut or repaired, and served again; each thing durably.

The damage is written and synced by the recorded process, so that a power cut finds it.
The mark of the journal goes with it: then only what is left can tell of a loss.
"""

import hashlib
import os
import random
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedcore.coordinator.actions import Persist
from fedcore.coordinator.events import StateRolledBack, UpdatePushed
from fedcore.errors import JournalError
from fedrun.config import FederationConfig
from fedrun.durable import sync_file, sync_folder
from fedrun.journal import Journal, recover, repair
from fedrun.journal import rows as rows_module
from fedrun.journal.segments import FILE as MARK
from tests.power.lives import CIDS, Life, in_a_process, push_of
from tests.power.noting import note
from tests.power.recorder import CHANGES, KILLED, fail

FILE, LOG = "journal.sqlite3", "journal.sqlite3-wal"
_HEAD, _FRAME = 32, 24 + 4096
CHECKPOINT = 11  # with this frame SQLite moves what is in its log
KILLS = int(
    os.environ.get("KILLS", "2")
)  # processes that are killed while they cut or repair, for each damage


class Harm(NamedTuple):
    """What a damage takes, from which record on."""

    first: int  # the first record that is lost
    unreadable: Sequence[int] = ()  # rows whose payloads are not what was written
    forgotten: bool = False  # rows that SQLite does not find any more


class Damaged:
    """A life that ends with a damage."""

    def __init__(self, life: Life, folder: Path) -> None:
        self.life, self.folder = life, folder
        self.ends: list[int] = []  # the last record after each update

    def push(self, times: int) -> None:
        for _ in range(times):
            self.life.push(CIDS[len(self.ends) % len(CIDS)])
            self.ends.append(self.life.run.journal.store.last)

    def payloads(self, behind: int) -> list[tuple[int, ...]]:
        """Number, segment and start of the payloads behind a record."""
        query = (
            "SELECT number, segment, start FROM records WHERE number > ? "
            "AND segment IS NOT NULL ORDER BY number"
        )
        return self._ask(query, behind)

    def numbers_in(self, segment: int) -> list[int]:
        query = "SELECT number FROM records WHERE segment = ? ORDER BY number"
        return [row[0] for row in self._ask(query, segment)]

    def _ask(self, query: str, value: int) -> list[tuple[int, ...]]:
        db = sqlite3.connect(f"file:{self.folder / FILE}?mode=ro", uri=True)
        try:
            return db.execute(query, (value,)).fetchall()
        finally:
            db.close()

    def segment(self, number: int) -> Path:
        return self.folder / "segments" / f"{number:06d}.segment"

    def transactions(self) -> list[int]:
        """The frames in SQLite's log with which a transaction ends."""
        log = (self.folder / LOG).read_bytes()
        ends, at = [], 0
        while (start := _HEAD + at * _FRAME) < len(log):
            frame = log[start : start + _FRAME]
            if frame[8:16] != log[16:24]:
                break
            if any(frame[4:8]):
                ends.append(at)
            at += 1
        return ends

    def fill_log(self) -> None:
        """The log holds three transactions that are nowhere else, with all payloads."""
        rows_module.LARGE = 1 << 20  # for this process: no segment tells of a loss
        self.push(3)
        while len(ends := self.transactions()) < 3 or ends[-1] >= CHECKPOINT:
            self.push(1)


def _harm_end(run: Damaged) -> tuple[Harm, Callable[[], None]]:
    """The last record's payload is not what was written."""
    run.push(2)
    run.life.snapshot()
    run.push(1)
    while run.life.run.coordinator.state.count != 1:  # then a step follows
        run.push(1)
    [(number, segment, start)] = run.payloads(run.ends[-1] - 1)
    return Harm(number, [number]), lambda: flip(run.segment(segment), start + 7)


def _harm_middle(run: Damaged) -> tuple[Harm, Callable[[], None]]:
    """A payload in the middle is not what was written."""
    run.push(2)
    run.life.snapshot()
    run.push(3)
    number, segment, start = run.payloads(run.ends[1])[0]
    return Harm(number, [number]), lambda: flip(run.segment(segment), start + 7)


def _harm_segment(run: Damaged) -> tuple[Harm, Callable[[], None]]:
    """A segment is gone, with payloads on both sides of the newest snapshot."""
    run.push(1)
    while len(run.numbers_in(run.payloads(0)[-1][1])) != 1:
        run.push(1)
    run.life.snapshot()
    before = run.ends[-1]
    run.push(2)
    number, segment, _ = run.payloads(before)[0]
    path = run.segment(segment)
    there = run.numbers_in(segment)
    assert there[0] <= before < there[-1]
    return Harm(number, there), lambda: remove(path)


def _harm_gap(run: Damaged) -> tuple[Harm, Callable[[], None]]:
    """The last transaction but one is damaged in SQLite's log."""
    run.fill_log()
    start = _HEAD + run.transactions()[-2] * _FRAME
    log = run.folder / LOG
    return Harm(run.ends[-3] + 1, forgotten=True), lambda: flip(log, start + 500)


def _harm_gap_before_snapshot(run: Damaged) -> tuple[Harm, Callable[[], None]]:
    """A snapshot, too, holds what is behind the gap."""
    harm = _harm_gap(run)
    run.life.snapshot()
    return harm


def _harm_log(run: Damaged) -> tuple[Harm, Callable[[], None]]:
    """SQLite's log ends too early; but for a snapshot nothing would tell."""
    run.fill_log()
    run.life.snapshot()
    size = _HEAD + (run.transactions()[-2] + 1) * _FRAME
    log = run.folder / LOG
    return Harm(run.ends[-2] + 1, forgotten=True), lambda: shorten(log, size)


def flip(path: Path, start: int) -> None:
    """A few bytes are others, on disk."""
    with path.open("r+b") as file:
        file.seek(start)
        content = file.read(4)
        file.seek(start)
        file.write(bytes(byte ^ 0x55 for byte in content))
        file.flush()
        os.fsync(file.fileno())


def shorten(path: Path, size: int) -> None:
    """A file ends here, on disk."""
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def remove(path: Path) -> None:
    """A file is gone, on disk."""
    path.unlink()
    sync_folder(path.parent)


HARMS = {
    "log": _harm_log,
    "end": _harm_end,
    "gap": _harm_gap,
    "gap before a snapshot": _harm_gap_before_snapshot,
    "segment": _harm_segment,
    "middle": _harm_middle,
}


def _digests(folder: Path, kind: str, first: int) -> dict[str, str]:
    """What must be kept aside, as it is now: later snapshots; the damaged log."""
    files = [
        path
        for path in (folder / "snapshots").glob("*.safetensors")
        if int(path.stem) >= first
    ]
    if kind.startswith("gap"):
        files += [folder / FILE, folder / LOG]
    return {path.name: digest_of(path) for path in files}


def digest_of(path: Path) -> str:
    """Of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def damaged(config: FederationConfig, rng: random.Random) -> None:
    """Lives that end with a damage; each is mended, and followed by another."""
    for turn, kind in enumerate(HARMS):
        number = 10 * turn + 1
        _surely(partial(_harm, config, number, kind))
        for attempt in range(KILLS):
            _surely(partial(_mend, config, number + attempt, kind, rng.randint(1, 60)))
        _surely(partial(_mend, config, number + KILLS, kind))
        _surely(partial(_live_on, config, number + KILLS + 1))


def _surely(act: Callable[[], None]) -> None:
    """In a process of its own; an error of the journal is a mistake here."""

    def acting() -> None:
        try:
            act()
        except JournalError as error:
            raise AssertionError(str(error)) from error

    in_a_process(acting)


def _harm(config: FederationConfig, number: int, kind: str) -> None:
    folder = config.server.journal
    run = Damaged(Life(config, number), folder)
    harm, damage = HARMS[kind](run)
    file = str(folder / FILE)
    told = harm._asdict()
    note(what="damaging", file=file, kind=kind, **told)
    remove(folder / MARK)
    damage()
    sync_file(folder / LOG)
    note(what="damaged", file=file, files=_digests(folder, kind, harm.first))


def _mend(config: FederationConfig, number: int, kind: str, killed_at: int = 0) -> None:
    """An operator's repair; or a start, which cuts by itself. It may be killed."""
    if killed_at:
        fail(CHANGES, killed_at, KILLED)
    if kind == "end":
        Life(config, number).push(CIDS[0])
    elif kind == "middle":
        _cut_with_an_update(config.server.journal, number)
    else:
        repair(config.server.journal, f"{number:016x}")


def _cut_with_an_update(folder: Path, number: int) -> None:
    """A cut in whose transaction a large payload takes the place of what is lost."""
    journal = Journal.open(folder, repairing=True)
    if journal.loss is not None:
        coordinator = recover(journal).coordinator
        state, rng = coordinator.state, np.random.default_rng(number)
        event = StateRolledBack(
            at=state.at, fresh_epoch=f"{number:016x}", reason="repaired"
        )
        actions = coordinator.handle(event)
        push = push_of(coordinator, CIDS[0], rng)
        actions += coordinator.handle(UpdatePushed(at=state.at, push=push))
        journal.cut(state.at, [a.record for a in actions if isinstance(a, Persist)])
    journal.close()


def _live_on(config: FederationConfig, number: int) -> None:
    life = Life(config, number)
    for update in range(3):
        life.push(CIDS[update % len(CIDS)])
    life.snapshot()
    life.push(CIDS[0])
