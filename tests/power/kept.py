"""Whether what a journal cut off lies where its record says."""

import sqlite3
from contextlib import closing
from pathlib import Path

from fedcore.coordinator.events import Cut
from fedrun.run import Run
from tests.power.damage import digest_of
from tests.power.promises import CutPromise, Damage, JournalPromise, Row
from tests.protocol.ghost import ViolationError

DATABASE = ("journal.sqlite3", "journal.sqlite3-wal")


def check_kept(
    folder: Path, run: Run, promise: JournalPromise, rows: list[Row]
) -> list[Row]:
    """All that was ever cut off is kept; the rows that the newest cut took.

    Nothing is returned for a cut that the promises know already.
    """
    cuts = [
        (entry.number, entry.record)
        for entry in run.journal.store.find("Cut")
        if isinstance(entry.record, Cut) and entry.number <= len(rows)
    ]
    known = [cut for cut in promise.cuts if rows[cut.first - 1][0] == "Cut"]
    done = list(known)
    if len(cuts) > len(known):
        number = cuts[-1][0]
        assert promise.damage is not None
        lost = promise.rows[number - 1 :]
        done.append(CutPromise(number, [], lost, promise.damage))
    if [number for number, _ in cuts] != [cut.first for cut in done]:
        raise ViolationError(f"{folder} was cut at {[number for number, _ in cuts]}")
    for (_, record), cut in zip(cuts, done, strict=True):
        _check_folder(folder, record.kept, cut)
    if done:
        _check_snapshots(folder, done[-1])
    return done[-1].lost if len(done) > len(known) else []


def _check_folder(folder: Path, name: str, cut: CutPromise) -> None:
    kept, damage = folder / name, cut.damage
    if not kept.is_dir():
        raise ViolationError(f"{kept} is gone")
    _check_rows(kept / "records.sqlite3", cut, damage)
    for file, digest in damage.files.items():
        if file not in DATABASE and not _is(kept / file, digest):
            raise ViolationError(f"{kept} does not hold {file} as it was")
    wanted = {name: damage.files[name] for name in DATABASE if name in damage.files}
    if wanted and not any(
        all(_is(place / file, digest) for file, digest in wanted.items())
        for place in (folder / "cut").glob("database*")
    ):
        raise ViolationError(f"{folder}/cut does not hold the database as it was found")


def _check_rows(file: Path, cut: CutPromise, damage: Damage) -> None:
    found = {}
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            query = "SELECT number, kind, body, payload, dropped FROM records"
            found = {row[0]: row[1:] for row in db.execute(query)}
    except sqlite3.Error as error:
        raise ViolationError(f"{file}: {error}") from error
    for number, (kind, body, payload) in enumerate(cut.lost, cut.first):
        if number not in found and damage.forgotten:
            continue
        row = found.get(number)
        if row is None or row[:2] != (kind, body):
            raise ViolationError(f"{file} does not hold record {number}")
        if number not in damage.unreadable and (row[2] or b"").hex() != payload:
            raise ViolationError(f"{file} holds record {number} with another payload")


def _check_snapshots(folder: Path, cut: CutPromise) -> None:
    for name, digest in cut.damage.files.items():
        if name not in DATABASE and _is(folder / "snapshots" / name, digest):
            raise ViolationError(f"snapshots/{name} is one of a history that was cut")


def _is(file: Path, digest: str) -> bool:
    return file.is_file() and digest_of(file) == digest
