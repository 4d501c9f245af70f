"""The journal itself: what is kept, for how long, and what is put aside."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator.events import Cut
from fedcore.errors import CorruptJournalError, DiskError, JournalError
from fedrun.journal import Journal, aside, exists, journal, repair
from fedrun.journal.aside import keep_aside
from fedrun.journal.sqlite import SqliteStore
from fedrun.journal.wal import gap
from tests.fedrun.journal.runs import Written, change, records, written
from tests.fedrun.journal.test_loss import FRAME, HEAD, killed, log_of


@contextmanager
def opened(folder: Path, **how: bool) -> Iterator[Journal]:
    """A run, looked at."""
    one = Journal.open(folder, **how)
    try:
        yield one
    finally:
        one.close()


# ------------------------------------------------------------------- beginnings


def test_a_run_is_not_made_where_one_is(tmp_path: Path) -> None:
    run = written(tmp_path)
    with opened(run.folder) as there:
        [(_, configured)] = there.configurations()
        initial = there.initial()[1]
    for _ in range(2):  # and nothing stays locked
        with pytest.raises(JournalError, match="there is a journal already"):
            Journal.create(run.folder, configured, initial + 1)
    with opened(run.folder) as there:
        assert np.array_equal(there.initial()[1], initial)
        assert there.store.last == 8


def test_a_run_that_cannot_be_made_locks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(journal, "save_model", full)
        with pytest.raises(DiskError, match=r"initial.safetensors: the disk is full"):
            Written(tmp_path)
    assert not exists(tmp_path / "run")
    written(tmp_path)


def test_the_first_model_is_private(tmp_path: Path) -> None:
    run = written(tmp_path)
    model = run.folder / "models" / "initial.safetensors"
    assert model.stat().st_mode & 0o777 == 0o600


def test_what_was_something_is_a_run(tmp_path: Path) -> None:
    run = written(tmp_path)
    assert exists(run.folder)
    (run.folder / "journal.mark").unlink()
    assert exists(run.folder)
    beside = run.folder / "journal.sqlite3-journal"
    beside.touch()
    assert not exists(run.folder)  # it was about to get its log
    beside.unlink()
    file = run.folder / "journal.sqlite3"
    file.write_bytes(b"no database, " * 1000)
    assert exists(run.folder)
    file.write_bytes(b"")
    assert not exists(run.folder)
    db = sqlite3.connect(file)
    db.execute("CREATE TABLE other (x)")
    db.close()
    assert exists(run.folder)
    file.unlink()
    assert not exists(run.folder)


def test_a_log_with_a_gap_is_a_run_whatever_its_database_holds(tmp_path: Path) -> None:
    (tmp_path / "alive").mkdir()
    run = killed(tmp_path)
    (run.folder / "journal.mark").unlink()
    log = log_of(run)
    content = bytearray(log.read_bytes())
    content[HEAD + 500] ^= 1
    log.write_bytes(content)
    assert exists(run.folder)
    with pytest.raises(CorruptJournalError):
        Journal.open(run.folder)


# ------------------------------------------------------------------ what is lost


def test_a_gap_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "alive").mkdir()
    run = killed(tmp_path)
    log = log_of(run)
    content = bytearray(log.read_bytes())
    content[HEAD + 3 * FRAME + 500] ^= 1
    log.write_bytes(content)
    found = gap(log, run.folder / "journal.sqlite3")
    assert found is not None
    with pytest.raises(CorruptJournalError) as caught:
        Journal.open(run.folder)
    assert (
        f"journal.sqlite3-wal is damaged at byte {HEAD + 3 * FRAME} (frame 3), and "
        f"{found.frames - 4} frames that were written later follow; bring back"
    ) in str(caught.value)


def test_who_only_looks_is_told_what_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Written(tmp_path)
    run.push()
    run.group.snapshot(9)
    with opened(run.folder, read_only=True) as there:  # while it is served
        assert there.loss is None
    run.close()
    assert "holds record 9" not in caplog.text
    with opened(run.folder, read_only=True) as there:
        assert there.loss is not None
        assert there.loss[:2] == (5, 9)
        assert not there.loss.at_end
        assert len(list(there.entries())) == 4
        with pytest.raises(CorruptJournalError, match="holds record 9"):
            there.require_sound()
    assert "only the sound records are read" in caplog.text


def test_a_sound_run_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Written(tmp_path)
    run.push()
    run.group.snapshot(run.run.journal.store.last)
    run.close()
    for read_only in (True, False):
        with opened(run.folder, read_only=read_only) as there:
            assert there.loss is None
            there.require_sound()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE records SET checksum = checksum + 1 WHERE number = 8",
            "record 8 is damaged: its checksum is wrong (payload in its row); the next "
            "start cuts it off, keeps it aside and begins a new history",
        ),
        (
            "UPDATE records SET checksum = checksum + 1 WHERE number = 7",
            "record 7 is damaged and sound records follow it: its checksum is wrong "
            "(payload in its row); bring back a backup",
        ),
        (
            "UPDATE records SET checksum = checksum + 1 WHERE number = 1",
            "record 1 is damaged and sound records follow it: its checksum is wrong "
            "(payload in its row); bring back a backup",
        ),
        (
            "DELETE FROM records WHERE number = 7",
            "record 7 is missing and sound records follow it; bring back a backup",
        ),
    ],
)
def test_damage_is_told_with_what_to_do(
    tmp_path: Path, statement: str, words: str
) -> None:
    run = written(tmp_path)
    change(run.folder, statement)
    with (
        opened(run.folder, read_only=True) as there,
        pytest.raises(CorruptJournalError) as caught,
    ):
        there.require_sound()
    assert f"{run.folder}: {words}" in str(caught.value)
    if "bring back a backup" in words:
        with pytest.raises(CorruptJournalError) as caught:
            Journal.open(run.folder)
        assert f"{run.folder}: {words}" in str(caught.value)


def test_damage_at_the_end_is_only_hidden_until_it_is_cut(tmp_path: Path) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number >= 7")
    with opened(run.folder) as there:
        assert there.loss is not None
        assert (there.loss.first, there.loss.last, there.loss.at_end) == (7, 8, True)
        assert there.store.last == 6
        kept = there.cut(5.0, [])
        assert there.loss is None
        [cut] = [each.record for each in there.entries(6)]
        assert kept == run.folder / "cut" / "000000000007"
        assert cut == Cut(
            at=5.0,
            first=7,
            last=8,
            reason="record 7 is damaged: its checksum is wrong (payload in its row)",
            kept="cut/000000000007",
        )
        there.require_sound()


def test_a_lost_end_is_no_torn_tail_also_where_damage_stands_before_it(
    tmp_path: Path,
) -> None:
    run = Written(tmp_path)
    run.push()
    run.group.snapshot(9)
    run.close()
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number = 4")
    with pytest.raises(CorruptJournalError, match="record 4 is damaged"):
        Journal.open(run.folder)
    with opened(run.folder, repairing=True) as there:
        assert there.loss is not None
        assert (there.loss.first, there.loss.last, there.loss.at_end) == (4, 9, False)


# ------------------------------------------------------------- what is put aside


class Noted:
    """What was synced before a cut, by its name in the folder of the run."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.before: list[str] = []
        synced: list[str] = []
        for name in ("sync_file", "sync_folder"):
            real = getattr(aside, name)

            def sync(path: Path, real: Any = real) -> None:
                synced.append(str(path.relative_to(folder)))
                real(path)

            patch.setattr(aside, name, sync)
        cut = SqliteStore.cut

        def noting(store: SqliteStore, *given: Any) -> int:
            self.before = list(synced)
            return cut(store, *given)

        patch.setattr(SqliteStore, "cut", noting)


def test_what_is_put_aside_is_on_disk_before_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(tmp_path)
    for number in (4, 6):
        run.push()
        run.group.snapshot(number)
    run.group.snapshot(7)
    run.close()
    noted = Noted(run.folder, monkeypatch)
    with opened(run.folder, repairing=True) as there:
        there.cut(1.0, [])
        assert there.snapshots.numbers() == [4, 6]
    kept = run.folder / "cut" / "000000000007"
    assert sorted(noted.before[:2]) == [
        "cut/.making/000000000007.safetensors",
        "cut/.making/records.sqlite3",
    ]
    assert noted.before[2:] == ["cut/.making", "cut"]
    names = sorted(path.name for path in kept.iterdir())
    assert names == ["000000000007.safetensors", "records.sqlite3"]
    assert (kept / "records.sqlite3").stat().st_mode & 0o777 == 0o600


def test_a_repair_keeps_the_database_as_it_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "alive").mkdir()
    run = killed(tmp_path)
    log = log_of(run)
    content = bytearray(log.read_bytes())
    content[HEAD + 6 * FRAME + 500] ^= 1
    log.write_bytes(content)
    found = {
        name: (run.folder / name).read_bytes()
        for name in ("journal.sqlite3", "journal.sqlite3-wal")
    }
    noted = Noted(run.folder, monkeypatch)
    repair(run.folder, "e" * 16)
    kept = run.folder / "cut" / "database"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == found
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}
    assert sorted(noted.before[:2]) == [
        "cut/.making/journal.sqlite3",
        "cut/.making/journal.sqlite3-wal",
    ]
    assert noted.before[2:4] == ["cut/.making", "cut"]
    [cut] = [each for each in records(run.folder) if isinstance(each, Cut)]
    assert cut.last >= cut.first


def _write(place: Path, text: str) -> None:
    (place / "one").write_text(text)


def test_what_was_put_aside_before_stays(tmp_path: Path) -> None:
    def keep(text: str) -> str:
        return keep_aside(tmp_path, "aside", lambda place: _write(place, text)).name

    assert [keep(text) for text in "abcab"] == [
        "aside",
        "aside-2",
        "aside-3",
        "aside",
        "aside-2",
    ]
    assert (tmp_path / "cut" / "aside-3" / "one").read_text() == "c"


def test_a_cut_says_what_was_known_of_the_end(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.push()
    run.group.snapshot(99)
    run.close()
    repair(run.folder, "e" * 16)
    [cut] = [each for each in records(run.folder) if isinstance(each, Cut)]
    assert (cut.first, cut.last) == (5, 99)


def test_of_a_run_that_waits_for_no_disk_only_later_snapshots_go(
    tmp_path: Path,
) -> None:
    run = Written(tmp_path, durable=False)
    run.push()
    last = run.run.journal.store.last
    for number in (last, last + 1):
        run.group.snapshot(number)
    run.close()
    with opened(run.folder) as there:
        assert there.snapshots.numbers() == [last]


# --------------------------------------------------------------- what is dropped


def payload_bytes(run: Written) -> int:
    store = run.run.journal.store
    return store.payload_bytes()


def snapshot(run: Written, keep_bytes: int) -> None:
    """Writes a snapshot, with this budget for payloads."""
    state = run.run.coordinator.state
    last = run.run.journal.store.last
    run.run.journal.save_snapshot(last, *state.dump(), keep_bytes)


def test_payloads_are_dropped_only_beyond_the_budget(tmp_path: Path) -> None:
    run = Written(tmp_path)
    store = run.run.journal.store
    run.push()
    snapshot(run, payload_bytes(run))
    run.push()
    snapshot(run, payload_bytes(run))
    assert store.first_payload() == 0
    assert run.run.journal.replay_begins() == 0
    snapshot(run, payload_bytes(run) - 1)
    assert store.first_payload() == 3  # up to the oldest snapshot that is kept
    assert run.run.journal.snapshots.numbers() == [4, 6]
    assert run.run.journal.replay_begins() == 4
    run.close()


def test_three_snapshots_are_kept_and_the_one_where_a_replay_begins(
    tmp_path: Path,
) -> None:
    run = Written(tmp_path)
    for _ in range(2):
        run.push()
        snapshot(run, 0)
    assert run.run.journal.replay_begins() == 4
    found = []
    for _ in range(4):
        run.push()
        snapshot(run, 1 << 20)
        found.append(run.run.journal.snapshots.numbers())
    assert found == [[4, 6, 8], [4, 6, 8, 10], [4, 8, 10, 12], [4, 10, 12, 14]]
    snapshot(run, 0)
    assert run.run.journal.store.first_payload() == 9
    assert run.run.journal.snapshots.numbers() == [10, 12, 14]
    assert run.run.journal.replay_begins() == 10
    journal = run.run.journal
    assert journal.newest_snapshot() == 14
    assert [journal.newest_snapshot(n) for n in (14, 13, 10, 9)] == [14, 12, 10, None]
    run.close()


def test_a_journal_without_a_configuration_is_damaged(tmp_path: Path) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET kind = 'Other' WHERE kind = 'Configured'")
    with (
        opened(run.folder, read_only=True) as there,
        pytest.raises(CorruptJournalError, match="the journal has no configuration"),
    ):
        there.configurations()
