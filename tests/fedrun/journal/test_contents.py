"""Verify names a flipped bit in whatever file it lies, or says what it cannot check."""

import random
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fedcore.errors import CorruptJournalError, JournalError
from fedrun.checkpoints import CheckpointKeeper
from fedrun.checksums import CHECK
from fedrun.files import load_arrays, save_arrays
from fedrun.journal import Journal, backup, recover, restore, verify
from fedrun.journal.contents import examine_all
from fedrun.journal.verification import Verified
from fedrun.run import fresh_name
from tests.fedrun.journal.runs import LARGE, Written, change

HEADER_BYTES = 40  # before each payload in a segment


def whole(folder: Path, *, dropped: bool = False, log: bool = False) -> Path:
    """A run with files of every kind; returns its folder.

    Args:
        folder: where.
        dropped: whether payloads were dropped.
        log: whether the newest records lie in SQLite's log.
    """
    run = Written(folder, dim=LARGE)
    store = run.run.journal.store
    run.push("ann", 1.0)
    run.group.snapshot(first := store.last)
    run.push("bob", 2.0)
    run.group.snapshot(store.last)
    if dropped:
        store.drop_payloads(first)
    CheckpointKeeper(run.run).save_last()
    run.push("ann", 3.0)
    if log:  # as a server leaves it that is killed
        copy = folder / "killed"
        shutil.copytree(run.folder, copy)
        run.close()
        return copy
    run.close()
    return run.folder


def verified(run: Path) -> Verified:
    """What verify finds."""
    with closing(Journal.open(run, read_only=True)) as journal:
        return verify(journal)


def said(run: Path) -> Any:
    """All that anybody reads of the records of a run."""
    with closing(Journal.open(run, read_only=True)) as journal:
        return journal.store.facts(), [
            (number, repr(record)) for number, record in journal.store.entries()
        ]


def flip(file: Path, byte: int, bit: int) -> None:
    """Flips one bit."""
    with file.open("r+b") as changed:
        changed.seek(byte)
        [before] = changed.read(1)
        changed.seek(byte)
        changed.write(bytes([before ^ 1 << bit]))


def places(file: Path) -> list[int]:
    """Bytes of a file that mean something, some of them if there are many."""
    rng, size = random.Random(file.name), file.stat().st_size
    match file.suffix:
        case ".mark":
            return [*range(24), *range(512, 536)]
        case ".segment":
            one = HEADER_BYTES + 4 * LARGE
            return [*range(HEADER_BYTES), *range(one, one + HEADER_BYTES), 90, one - 1]
        case ".safetensors":
            head = 8 + int.from_bytes(file.read_bytes()[:8], "little")
            inside = [rng.randrange(8, head) for _ in range(60)]
            return [*range(8), *inside, head, rng.randrange(head, size), size - 1]
        case _:
            return []


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with files of every kind, which tests copy."""
    return whole(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize(
    "kind",
    [
        "snapshots/*.safetensors",
        "models/initial.safetensors",
        "models/last.safetensors",
        "journal.mark",
        "segments/*.segment",
    ],
)
def test_a_flipped_bit_is_named_with_its_file(sound: Path, kind: str) -> None:
    files, rng = sorted(sound.glob(kind)), random.Random(kind)
    assert files
    with closing(Journal.open(sound, read_only=True)) as journal:
        for file in files:
            names = file.name, f"snapshot {file.stem.lstrip('0')}: ", "(payload in seg"
            for byte in places(file):
                bit = rng.randrange(8)
                flip(file, byte, bit)
                with pytest.raises(CorruptJournalError) as caught:
                    examine_all(journal)
                flip(file, byte, bit)
                told = str(caught.value)
                assert any(name in told for name in names), (byte, bit, told)
        examine_all(journal)


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_flipped_bit_in_the_records_or_their_log_is_named_or_changes_nothing(
    tmp_path: Path, suffix: str, dropped: bool
) -> None:
    run = whole(tmp_path, dropped=dropped, log=bool(suffix))
    file, rng = run / f"journal.sqlite3{suffix}", random.Random(suffix)
    before, content = said(run), file.read_bytes()
    verified(run)
    used = [place for place, byte in enumerate(content) if byte]
    named = 0
    for byte in rng.sample(used, 60):
        flip(file, byte, rng.randrange(8))
        try:
            verified(run)
        except JournalError as error:
            named += str(run) in str(error)
        else:
            assert said(run) == before, byte
        finally:
            file.write_bytes(content)
    assert named > 30
    verified(run)


def test_what_a_start_does_without_a_damaged_snapshot_is_told(tmp_path: Path) -> None:
    run = whole(tmp_path)
    older, newest = sorted((run / "snapshots").glob("*.safetensors"))

    def damaged(*files: Path) -> list[str]:
        for file in files:
            flip(file, file.stat().st_size - 1, 0)
        with pytest.raises(CorruptJournalError) as caught:
            verified(run)
        for file in files:
            flip(file, file.stat().st_size - 1, 0)
        return [line.partition("; ")[2] for line in str(caught.value).splitlines()]

    at = int(older.stem)
    assert damaged(newest) == [f"a start goes back to snapshot {at}, and loses nothing"]
    assert damaged(older) == ["a start does not need it"]
    back = "a start goes back to version 0, and loses nothing"
    assert damaged(older, newest) == [back, back]
    with closing(Journal.open(run)) as journal:
        journal.store.drop_payloads(int(newest.stem))
    assert damaged(newest) == ["bring back a backup with fedserver restore"]


def test_what_has_no_checksum_is_named(tmp_path: Path) -> None:
    run = whole(tmp_path, dropped=True)
    assert verified(run).contents.unchecked == ()
    for name in ("traffic.sqlite3", "report.html", "lock", ".hidden"):
        (run / name).touch()
    (run / "evaluator").mkdir()
    assert verified(run).contents.unchecked == (
        "evaluator (a client's own state)",
        "report.html",
        "traffic.sqlite3 (counts of bytes)",
    )


def test_a_model_and_facts_without_their_checksum_are_damaged(tmp_path: Path) -> None:
    run = whole(tmp_path, dropped=True)
    change(run, "DELETE FROM facts WHERE key = 'check'")
    model = run / "models" / "last.safetensors"
    arrays, metadata = load_arrays(model)
    save_arrays(model, arrays, {k: v for k, v in metadata.items() if k != CHECK})
    with pytest.raises(CorruptJournalError) as caught:
        verified(run)
    facts, last = str(caught.value).splitlines()
    assert "the checksum of the facts beside the records is wrong" in facts
    assert last == f"{model}: its checksum is wrong"


def test_a_backup_leaves_a_damaged_snapshot_out_and_can_be_restored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = whole(tmp_path)
    older, newest = sorted((run / "snapshots").glob("*.safetensors"))
    flip(newest, newest.stat().st_size - 1, 0)
    backup(run, tmp_path / "copy")
    kept = [path.name for path in (tmp_path / "copy" / "snapshots").iterdir()]
    assert kept == [older.name]
    assert f"{newest.name}" in caplog.text or "its checksum is wrong" in caplog.text
    assert verified(tmp_path / "copy").accepted == 3
    restore(tmp_path / "copy", tmp_path / "again", fresh_name)
    with closing(Journal.open(tmp_path / "again")) as journal:
        assert recover(journal).coordinator.state.version == 3
