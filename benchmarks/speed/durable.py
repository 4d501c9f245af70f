"""The speed of making records durable; no answer leaves before its record is on disk.

The floor is the time of the disk itself: the same bytes over those of a file, and
``fdatasync``. Our store does just that once a segment is recycled, and commits a row
beside it.
"""

import os
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from benchmarks.speed.measure import Scale, Work, in_turn, seconds_of
from benchmarks.speed.report import RATIO, Report, Row
from fedcore.coordinator.events import Decided
from fedcore.protocol import Verdict
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedrun.durable import sync_folder
from fedrun.journal.sqlite import SqliteStore

GROUP = 64
FLOOR = "overwrite, fdatasync"
Groups = Sequence[Sequence[Decided]]


class Way(NamedTuple):
    """One way of making so many records durable."""

    work: Work
    records: int


def run(scale: Scale) -> Report:
    """Times all ways, in turn."""
    large, small = scale.of(4_000_000, 100_000), 1_000
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        disk = Disk(Path(scratch), stack)
        # 16 large records are what one segment holds.
        ways = {
            f"{large / 1e6:.3g} MB": disk.large(large, scale.of(16, 2)),
            f"{small / 1e3:.3g} kB": disk.small(small, 1, scale.of(256, 2)),
            f"{small / 1e3:.3g} kB, {GROUP} to a commit": disk.small(
                small, GROUP, scale.of(64, 1)
            ),
        }
        groups = {title: _compare(each, scale) for title, each in ways.items()}
    return Report(
        name="durable",
        title="durable: records on disk before anything else happens",
        groups=groups,
    )


def _compare(ways: dict[str, Way], scale: Scale) -> list[Row]:
    seconds = in_turn({name: way.work for name, way in ways.items()}, scale.rounds)
    each = {name: seconds[name].times(1 / ways[name].records) for name in ways}
    return [
        Row(
            name,
            {
                "records/s": each[name].rate(1),
                "ms": each[name].times(1e3),
                RATIO: each[name].over(each[FLOOR]),
            },
            FLOOR,
        )
        for name in ways
    ]


class Disk:
    """All ways, each with files of its own."""

    def __init__(self, scratch: Path, stack: ExitStack) -> None:
        self._scratch, self._stack = scratch, stack
        self._folders = 0

    def large(self, size: int, count: int) -> dict[str, Way]:
        """Large records, one after the other."""
        payload = _bytes(size)
        groups = [[_record(payload)]] * count
        works = {
            FLOOR: self._overwrite(payload, count),
            "our store, recycled segments": self._recycled(groups),
            "our store, new segments": lambda: self._new_segments(groups),
            "new files, fsync": lambda: self._new_files(payload, count),
            "SQLite blobs, FULL": self._sqlite(payload, 1, count),
        }
        return {name: Way(work, count) for name, work in works.items()}

    def small(self, size: int, group: int, count: int) -> dict[str, Way]:
        """Small records, so many to a commit."""
        payload = _bytes(size)
        works = {
            FLOOR: self._overwrite(payload * group, count),
            "our store": self._append([[_record(payload)] * group] * count),
            "SQLite blobs, FULL": self._sqlite(payload, group, count),
        }
        return {name: Way(work, count * group) for name, work in works.items()}

    def _folder(self) -> Path:
        self._folders += 1
        folder = self._scratch / str(self._folders)
        folder.mkdir()
        return folder

    def _store(self) -> SqliteStore:
        return self._stack.enter_context(closing(SqliteStore(self._folder())))

    def _overwrite(self, payload: bytes, count: int) -> Work:
        file = os.open(self._folder() / "file", os.O_RDWR | os.O_CREAT)
        self._stack.callback(os.close, file)
        os.pwrite(file, payload * count, 0)
        os.fsync(file)

        def work() -> None:
            for place in range(count):
                os.pwrite(file, payload, place * len(payload))
                os.fdatasync(file)

        return work

    def _append(self, groups: Groups) -> Work:
        store = self._store()
        return lambda: [store.append(group) for group in groups]

    def _recycled(self, groups: Groups) -> Work:
        store = self._store()

        def work() -> Seconds:
            seconds = seconds_of(lambda: [store.append(group) for group in groups])
            store.drop_payloads(store.last)  # as a snapshot does, once in a while
            return seconds

        return work

    def _new_segments(self, groups: Groups) -> Seconds:
        with closing(SqliteStore(self._folder())) as store:
            return seconds_of(lambda: [store.append(group) for group in groups])

    def _new_files(self, payload: bytes, count: int) -> None:
        folder = self._folder()
        for place in range(count):
            with (folder / str(place)).open("wb") as file:
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(folder)

    def _sqlite(self, payload: bytes, group: int, count: int) -> Work:
        db = sqlite3.connect(self._folder() / "db", isolation_level=None)
        self._stack.callback(db.close)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE records (number INTEGER PRIMARY KEY, payload BLOB)")
        rows = [(payload,)] * group

        def work() -> None:
            for _ in range(count):
                db.execute("BEGIN IMMEDIATE")
                db.executemany("INSERT INTO records (payload) VALUES (?)", rows)
                db.execute("COMMIT")

        return work


def _bytes(size: int) -> bytes:
    return Key.root(0).fold_in("speed").generator().bytes(size)


def _record(payload: bytes) -> Decided:
    return Decided(
        at=0.0,
        cid="0" * 32,
        seq=1,
        digest="0" * 32,
        base=0,
        staleness=0,
        verdict=Verdict.ACCEPTED,
        weight=1.0,
        reason="",
        samples=100,
        steps=10,
        update_norm=1.0,
        memory_norm=1.0,
        oldest=None,
        counts=None,
        loss=1.0,
        nbytes=len(payload),
        payload=payload,
    )
