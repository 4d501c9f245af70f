"""Damage: cut off the end, refused in the middle, and always named."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import CorruptJournalError, JournalError, JournalVersionError
from fedrun.cli.exit_codes import exit_code
from fedrun.journal import Journal, recover, repair, verify
from fedrun.run import open_run
from tests.fedrun.journal.runs import LARGE, Written, change, written


def reopened(run: Written) -> Written:
    """The run after a restart."""
    again = Written(run.config.model.parent, run.dim)
    assert again.folder == run.folder
    return again


def refusal(run: Written) -> JournalError:
    """Why the run cannot be opened."""
    with pytest.raises(JournalError) as caught:
        open_run(run.config, 2.0)
    assert exit_code(caught.value) == 74
    return caught.value


def test_a_crash_loses_nothing(tmp_path: Path) -> None:
    run = written(tmp_path)
    again = reopened(run)
    assert (again.digest, again.seq) == (run.digest, {"ann": 3})
    assert again.run.recovered == 8  # settings, a client, three updates and versions
    again.close()


@pytest.mark.parametrize("dim", [100, LARGE])
def test_a_torn_end_is_cut_off_and_a_new_history_begins(
    tmp_path: Path, dim: int
) -> None:
    run = written(tmp_path, dim=dim)
    epoch = run.run.coordinator.state.epoch
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number >= 7")
    again = reopened(run)
    state = again.run.coordinator.state
    assert (state.version, state.clients["ann"].seq) == (2, 2)
    assert state.epoch != epoch
    opened = [e.record for e in again.run.journal.store.find("HistoryForked")]
    assert [record.reason for record in opened] == [  # type: ignore[union-attr]
        "2 damaged records were cut off the end of the journal"
    ]
    again.push()
    again.close()
    journal = Journal.open(run.folder)
    assert verify(journal).accepted == 3
    journal.close()


def test_damage_in_the_middle_is_refused_with_its_place(tmp_path: Path) -> None:
    run = written(tmp_path)
    eve = "UPDATE records SET body = replace(body, 'ann', 'eve') WHERE number = 3"
    change(run.folder, eve)
    error = refusal(run)
    assert isinstance(error, CorruptJournalError)
    assert f"{run.folder}: record 3 is damaged and sound records follow it" in str(
        error
    )
    assert "bring back a backup with fedserver restore" in str(error)


def test_a_record_that_is_missing_is_named(tmp_path: Path) -> None:
    run = written(tmp_path)
    change(run.folder, "DELETE FROM records WHERE number = 5")
    assert "record 5 is missing" in str(refusal(run))


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    run = written(tmp_path, dim=LARGE)
    [segment] = (run.folder / "segments").glob("*.segment")
    with segment.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff\xff\xff")
    error = str(refusal(run))
    assert "record 3 is damaged" in error
    assert "its checksum is wrong (payload in segment 1 at byte 40)" in error


def test_a_segment_that_is_gone_is_named(tmp_path: Path) -> None:
    run = written(tmp_path, dim=LARGE)
    [segment] = (run.folder / "segments").glob("*.segment")
    segment.unlink()
    assert "000001.segment: cannot be read: No such file" in str(refusal(run))


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    run = written(tmp_path)
    for name in ("journal.sqlite3-wal", "journal.sqlite3-shm"):
        (run.folder / name).unlink(missing_ok=True)
    (run.folder / "journal.sqlite3").write_bytes(b"no database, " * 1000)
    error = refusal(run)
    assert isinstance(error, CorruptJournalError)
    assert "journal.sqlite3: file is not a database" in str(error)


def test_a_damaged_schema_is_named(tmp_path: Path) -> None:
    run = written(tmp_path)
    run.close()
    file = run.folder / "journal.sqlite3"
    content = file.read_bytes()
    for old, new in (
        (b"tablerecords", b"table\x80ecords"),
        (b"CREATE TABLE records", b"CREATE TABBY records"),
    ):
        assert content.count(old) == 1
        content = content.replace(old, new)
    file.write_bytes(content)
    error = refusal(run)
    assert isinstance(error, CorruptJournalError)
    assert rf"{file}: malformed database schema (\x80ecords)" in str(error)


def declare(folder: Path, statement: str) -> str:
    """Declares the records in another way; returns how they were declared before."""
    with closing(sqlite3.connect(folder / "journal.sqlite3")) as db:
        [[before]] = db.execute("SELECT sql FROM sqlite_master WHERE name = 'records'")
        db.execute("PRAGMA writable_schema = 1")
        db.execute(
            "UPDATE sqlite_master SET sql = ? WHERE name = 'records'", (statement,)
        )
        db.commit()
    return str(before)


@pytest.mark.parametrize(
    "change_of",
    [
        "body = NULL",
        "body = CAST(body AS BLOB)",
        "kind = 7",
        "segment = 'one', start = 2",
        "segment = x'01', start = 2",
        "segment = 1, start = NULL",
        "size = 'large'",
        "checksum = NULL",
        "dropped = 'no'",
    ],
)
def test_a_column_of_another_type_is_damage(tmp_path: Path, change_of: str) -> None:
    run = written(tmp_path)
    run.close()
    loose = (
        "CREATE TABLE records (number INTEGER PRIMARY KEY, kind, body, payload, "
        "segment, start, size, checksum, dropped)"
    )
    strict = declare(run.folder, loose)
    change(run.folder, f"UPDATE records SET {change_of} WHERE number = 3")
    declare(run.folder, strict)
    assert "record 3 is damaged and sound records follow it" in str(refusal(run))


@pytest.mark.parametrize(
    ("start", "size"), [(-1, 20), (2**62, 20), (40, 2**62), (40, -3), (0, 2**40)]
)
def test_a_place_outside_of_a_segment_is_damage(
    tmp_path: Path, start: int, size: int
) -> None:
    run = written(tmp_path, dim=LARGE)
    run.close()
    change(
        run.folder,
        f"UPDATE records SET start = {start}, size = {size} WHERE number = 3",
    )
    assert f"ends before byte {start + size}, where a payload does" in str(refusal(run))


def test_a_damaged_fact_is_named(tmp_path: Path) -> None:
    run = written(tmp_path)
    run.close()
    change(run.folder, "UPDATE facts SET value = 'zz' WHERE key = 'history'")
    assert "the fact 'history' is damaged" in str(refusal(run))


@given(data=st.data())
def test_any_damaged_page_is_an_error_or_no_loss(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    run = written(tmp_path_factory.mktemp("run"), updates=12)
    file = run.folder / "journal.sqlite3"
    content = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(content) - 40))
    content[at : at + 40] = data.draw(st.binary(min_size=40, max_size=40))
    file.write_bytes(content)
    try:
        again = reopened(run)
    except JournalError as error:
        assert str(run.folder) in str(error)  # noqa: PT017
        return
    state = again.run.coordinator.state
    assert state.version <= 12
    if state.version == 12:
        assert again.digest == run.digest
    else:
        assert state.epoch != run.run.coordinator.state.epoch
    again.close()


@pytest.mark.parametrize("version", [1, 9])
def test_a_journal_of_another_schema_is_refused_clearly(
    tmp_path: Path, version: int
) -> None:
    run = written(tmp_path)
    change(run.folder, f"PRAGMA user_version = {version}")
    error = refusal(run)
    assert isinstance(error, JournalVersionError)
    assert str(error) == (
        f"{run.folder / 'journal.sqlite3'} has schema {version}, and this program "
        "reads schema 3: use the version of latecomer that wrote it, or start another "
        "run (server.journal)"
    )
    change(run.folder, "PRAGMA user_version = 3")
    reopened(run).close()  # nothing was changed, and nothing is locked


def test_a_record_of_a_newer_program_is_named(tmp_path: Path) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET kind = 'Dreamt' WHERE number = 5")
    assert "record 5 is damaged" in str(refusal(run))


def test_an_initial_model_of_another_run_is_refused(tmp_path: Path) -> None:
    run = written(tmp_path)
    (tmp_path / "other").mkdir()
    other = written(tmp_path / "other", dim=7)
    shutil.copytree(other.folder / "models", run.folder / "models", dirs_exist_ok=True)
    assert "initial.safetensors is not the model that the run began with" in str(
        refusal(run)
    )


def test_a_damaged_snapshot_is_replaced_by_a_longer_replay(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.push()
    run.group.snapshot(run.run.journal.store.last)
    run.push()
    last = run.run.journal.store.last
    run.group.snapshot(last)
    run.close()
    path = run.run.journal.snapshots.path(last)
    path.write_bytes(path.read_bytes()[:-10])
    again = reopened(run)
    assert again.digest == run.digest
    again.close()


def test_a_snapshot_of_records_that_are_not_there_is_damage(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.push()
    run.group.snapshot(99)
    run.close()
    assert "000000000099.safetensors holds record 99, the journal's last one is 4" in (
        str(refusal(run))
    )
    repair(run.folder, "e" * 16)
    journal = Journal.open(run.folder)
    assert journal.snapshots.numbers() == []
    assert recover(journal).coordinator.state.version == 1
    journal.close()
    [kept] = (run.folder / "cut").rglob("*.safetensors")
    assert kept.name == "000000000099.safetensors"


def test_snapshots_of_a_run_that_waits_for_no_disk_may_be_ahead(tmp_path: Path) -> None:
    run = Written(tmp_path, durable=False)
    run.push()
    run.group.snapshot(99)
    run.close()
    journal = Journal.open(run.folder)
    assert journal.snapshots.numbers() == []
    journal.close()


def test_a_folder_without_a_journal_is_told(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal here"):
        Journal.open(tmp_path)
    with pytest.raises(JournalError, match="no journal here"):
        Journal.open(tmp_path, read_only=True)


def test_a_journal_in_use_is_refused(tmp_path: Path) -> None:
    run = Written(tmp_path)
    with pytest.raises(JournalError, match=r"is in use by another server \(process"):
        Journal.open(run.folder)
    run.close()
    Journal.open(run.folder).close()
