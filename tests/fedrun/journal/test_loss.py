"""What was acknowledged and is not there any more: noticed, named, never ignored."""

import errno
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedcore.coordinator.events import Cut, HistoryForked
from fedcore.errors import CorruptJournalError, DiskError, JournalError
from fedrun.journal import Journal, aside, backup, exists, recover, repair, verify
from fedrun.journal.rows import Rows
from fedrun.journal.snapshots import Snapshots
from fedrun.journal.sqlite import SqliteStore
from fedrun.journal.wal import gap
from fedrun.run import open_run
from fedserver.cli import main
from tests.fedrun.journal.runs import LARGE, Written, change, records, written

FRAME = 24 + 4096
HEAD = 32


def killed(folder: Path, updates: int = 6, dim: int = 100) -> Written:
    """A run as SIGKILL leaves it: with SQLite's log."""
    run = Written(folder / "alive", dim)
    for number in range(updates):
        run.push(value=float(number + 1))
    shutil.copytree(run.folder, folder / "run")
    run.close()
    run.folder = folder / "run"
    run.config = run.config.model_copy(
        update={
            "server": run.config.server.model_copy(update={"journal": run.folder}),
        }
    )
    return run


@pytest.fixture
def torn(tmp_path: Path) -> Written:
    (tmp_path / "alive").mkdir()
    return killed(tmp_path)


def log_of(run: Written) -> Path:
    return run.folder / "journal.sqlite3-wal"


def refusal(run: Written) -> str:
    """Why the run is not served; opening it once more changes nothing."""
    before = contents(run.folder)
    with pytest.raises(JournalError) as caught:
        open_run(run.config, 2.0)
    assert contents(run.folder) == before
    return str(caught.value)


def contents(folder: Path) -> dict[str, bytes]:
    """All that matters in a folder; readers leave SQLite's memory, and an empty log."""
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("lock", "journal.sqlite3-shm")
    }
    return {name: content for name, content in files.items() if content}


def command(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["journal", *map(str, words)])
    return done.exit_code, done.output


# ------------------------------------------------------------- what cannot be read


def unmounted(run: Written) -> None:
    (run.folder / "segments").rename(run.folder / "elsewhere")


def forbidden(run: Written) -> None:
    # As root nothing is forbidden; a link to itself cannot be opened either.
    [segment] = (run.folder / "segments").iterdir()
    segment.unlink()
    segment.symlink_to(segment)


def cut_short(run: Written) -> None:
    [segment] = (run.folder / "segments").iterdir()
    os.truncate(segment, 2 * LARGE)


@pytest.mark.parametrize(
    ("harm", "cause"),
    [
        (unmounted, "000001.segment: cannot be read: No such file or directory"),
        (forbidden, "000001.segment is a link; expected a file: all that belongs"),
        (cut_short, "000001.segment: ends before byte 80046, where a payload does"),
    ],
)
def test_what_cannot_be_read_is_no_torn_tail(
    tmp_path: Path, harm: Callable[[Written], None], cause: str
) -> None:
    run = written(tmp_path, updates=1, dim=LARGE)
    harm(run)
    assert cause in refusal(run)


def test_too_many_open_files_are_no_torn_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path, updates=1, dim=LARGE)
    real = os.open

    def few(path: object, *given: object) -> int:
        if str(path).endswith(".segment"):
            raise OSError(24, os.strerror(24), str(path))
        return real(path, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", few)
        assert "000001.segment: cannot be read: Too many open files" in refusal(run)
    again = Written(tmp_path, LARGE)
    assert again.digest == run.digest
    again.close()


# --------------------------------------------------------------- tools only look


@pytest.mark.parametrize("tool", ["verify", "replay", "show"])
def test_tools_change_nothing(tmp_path: Path, tool: str) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number = 8")
    before = contents(run.folder)
    status, said = command(tool, run.folder)
    assert contents(run.folder) == before
    if tool != "show":
        assert status == 74
        assert "record 8 is damaged: its checksum is wrong" in said
        assert "the next start cuts it off" in said


def test_verify_reads_a_run_that_is_served(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.push()
    status, said = command("verify", run.folder)
    assert (status, "4 records are sound" in said) == (0, True)
    run.close()


def test_verify_looks_at_every_record_that_is_kept(tmp_path: Path) -> None:
    run = Written(tmp_path, journal={"keep_bytes": 10**9})
    for _ in range(2):
        run.push()
        run.group.snapshot(run.run.journal.store.last)
    run.close()
    change(run.folder, "UPDATE records SET body = body || ' ' WHERE number = 3")
    status, said = command("verify", run.folder)
    assert (status, "record 3 is damaged" in said) == (74, True)


def test_a_run_on_a_read_only_disk_can_be_verified(
    torn: Written, tmp_path: Path
) -> None:
    # The folder of a killed run, whose log SQLite would have to recover.
    found = verify_as_nobody(torn.folder)
    assert found == 6


def verify_as_nobody(folder: Path) -> int:
    """Reads a journal where nothing can be written."""
    real, os.access = os.access, lambda *_: False
    try:
        journal = Journal.open(folder, read_only=True)
        try:
            return verify(journal).accepted
        finally:
            journal.close()
    finally:
        os.access = real


# ------------------------------------------------------------ a cut is on the record


def test_a_cut_is_a_record_and_what_was_cut_is_kept(tmp_path: Path) -> None:
    run = written(tmp_path, dim=LARGE)
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number >= 7")
    again = Written(tmp_path, LARGE)
    assert again.run.coordinator.state.version == 2
    assert again.run.coordinator.state.epoch != run.run.coordinator.state.epoch
    again.close()
    cut, opened = records(run.folder)[6:8]
    assert isinstance(cut, Cut)
    assert isinstance(opened, HistoryForked)
    assert (cut.first, cut.last) == (7, 8)
    kept = sqlite3.connect(run.folder / cut.kept / "records.sqlite3")
    rows = kept.execute("SELECT number, kind, length(payload) FROM records").fetchall()
    kept.close()
    assert [row[:2] for row in rows] == [(7, "Decided"), (8, "Stepped")]
    assert rows[0][2] > 4 * LARGE
    journal = Journal.open(run.folder, read_only=True)
    assert verify(journal).accepted == 2
    journal.close()


def test_a_kill_between_the_cut_and_its_record_leaves_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number = 8")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Rows, "insert", killed)
        with pytest.raises(KeyboardInterrupt):
            open_run(run.config, 2.0)
    count = sqlite3.connect(run.folder / "journal.sqlite3").execute(
        "SELECT count(*) FROM records"
    )
    assert count.fetchone() == (8,)
    again = Written(tmp_path)
    assert again.run.coordinator.state.epoch != run.run.coordinator.state.epoch
    again.close()


# ------------------------------------------------------------------ SQLite's log


def flipped(content: bytearray, start: int) -> None:
    content[start + 500] ^= 1


def zeroed(content: bytearray, start: int) -> None:
    content[start : start + FRAME] = bytes(FRAME)


def shortened(content: bytearray, start: int) -> None:
    del content[start:]


# Without the mark nothing tells a shortened log from a torn tail.
@pytest.mark.parametrize(
    ("harm", "with_mark"),
    [
        (flipped, True),
        (flipped, False),
        (zeroed, True),
        (zeroed, False),
        (shortened, True),
    ],
)
def test_damage_in_the_middle_of_the_log_is_no_older_state(
    torn: Written, harm: Callable[[bytearray, int], None], with_mark: bool
) -> None:
    if not with_mark:
        (torn.folder / "journal.mark").unlink()
    log = log_of(torn)
    content = bytearray(log.read_bytes())
    frames = (len(content) - HEAD) // FRAME
    harm(content, HEAD + frames // 2 * FRAME)
    log.write_bytes(content)
    said = refusal(torn)
    assert "fedserver journal repair" in said
    status, told = command("verify", torn.folder)
    assert (status, "journal repair" in told) == (74, True)
    done = repair(torn.folder, "e" * 16)
    assert "the new history is " + "e" * 16 in done
    again = open_run(torn.config, 3.0)
    state = again.coordinator.state
    assert (state.epoch, 0 < state.version < 6) == ("e" * 16, True)
    again.journal.close()
    assert any(isinstance(record, Cut) for record in records(torn.folder))


def test_a_flipped_bit_anywhere_in_the_log_is_noticed(torn: Written) -> None:
    log = log_of(torn)
    whole = log.read_bytes()
    for start in range(HEAD, len(whole), 7 * FRAME):
        content = bytearray(whole)
        flipped(content, start)
        log.write_bytes(content)
        assert "fedserver journal repair" in refusal(torn)


def test_a_damaged_head_of_the_log_is_noticed(torn: Written) -> None:
    log = log_of(torn)
    content = bytearray(log.read_bytes())
    content[:HEAD] = bytes(HEAD)
    log.write_bytes(content)
    for name in ("journal.sqlite3-wal", "journal.mark"):
        said = refusal(torn)
        assert "fedserver journal repair" in said or "is missing" in said
        if name == "journal.mark":
            (torn.folder / name).unlink()


def test_a_log_that_is_gone_is_noticed(torn: Written) -> None:
    log_of(torn).unlink()
    assert "holds no records, and has held 14" in refusal(torn)


def test_what_was_never_committed_is_no_loss(torn: Written) -> None:
    log = log_of(torn)
    content = bytearray(log.read_bytes())
    # A transaction that the power cut: one of its frames is there, its first is not.
    page = content[-FRAME:]
    log.write_bytes(content + bytes(FRAME) + page)
    again = open_run(torn.config, 2.0)
    assert again.coordinator.state.version == 6
    assert again.coordinator.state.epoch == torn.run.coordinator.state.epoch
    again.journal.close()


def test_a_log_that_is_used_anew_is_sound(tmp_path: Path) -> None:
    run = Written(tmp_path)
    store = run.run.journal.store
    assert isinstance(store, SqliteStore)
    for _ in range(5):
        run.push()
    store._db.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    run.push()
    log, file = (run.folder / f"journal.sqlite3{end}" for end in ("-wal", ""))
    assert gap(log, file) is None
    run.close()


def test_a_torn_head_of_a_log_that_is_used_anew_is_sound(tmp_path: Path) -> None:
    run = Written(tmp_path)
    store = run.run.journal.store
    assert isinstance(store, SqliteStore)
    for _ in range(5):
        run.push()
    store._db.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    shutil.copytree(run.folder, tmp_path / "copy")
    run.close()
    log, file = (tmp_path / "copy" / f"journal.sqlite3{end}" for end in ("-wal", ""))
    content = bytearray(log.read_bytes())
    content[16:20] = struct.pack(">I", 1234)
    log.write_bytes(content)
    assert gap(log, file) is None
    journal = Journal.open(tmp_path / "copy")
    assert recover(journal).coordinator.state.version == 5
    journal.close()


# --------------------------------------------------------- segments and the mark


def test_later_payloads_prove_that_records_are_missing(tmp_path: Path) -> None:
    run = written(tmp_path, updates=4, dim=LARGE)
    (run.folder / "journal.mark").unlink()
    change(run.folder, "DELETE FROM records WHERE number > 4")
    assert "records up to 8 had been written, and it ends with record 4" in refusal(run)


def test_a_payload_without_its_row_is_no_loss(tmp_path: Path) -> None:
    run = written(tmp_path, updates=2, dim=LARGE)
    (run.folder / "journal.mark").unlink()
    # As if the machine had stopped before the last commit: its payload is there.
    change(run.folder, "DELETE FROM records WHERE number > 4")
    change(run.folder, "UPDATE records SET dropped = dropped")
    again = Written(tmp_path, LARGE)
    assert again.run.coordinator.state.version == 1
    assert again.run.coordinator.state.epoch == run.run.coordinator.state.epoch
    again.push()
    again.close()


def test_a_database_that_is_gone_does_not_begin_a_new_run(tmp_path: Path) -> None:
    run = written(tmp_path)
    for file in run.folder.glob("journal.sqlite3*"):
        file.unlink()
    assert "journal.sqlite3 is missing, and has held 8 records" in refusal(run)


def test_a_torn_mark_is_worth_its_other_half(tmp_path: Path) -> None:
    run = written(tmp_path)
    mark = run.folder / "journal.mark"
    whole = mark.read_bytes()
    for start in (0, 512):
        mark.write_bytes(whole[:start] + bytes(20) + whole[start + 20 :])
        again = Written(tmp_path)
        assert again.digest == run.digest
        again.close()


# -------------------------------------------------------------------- repairs


def test_a_repair_goes_on_before_damage_in_the_middle(tmp_path: Path) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET checksum = 0 WHERE number = 5")
    with pytest.raises(CorruptJournalError, match="record 5 is damaged and sound rec"):
        Journal.open(run.folder)
    status, said = command("repair", run.folder)
    assert status == 0
    assert "the journal ends with record 4 now; what came after it is kept in" in said
    again = Written(tmp_path)
    assert again.run.coordinator.state.version == 1
    again.push()
    again.close()
    status, said = command("verify", run.folder)
    assert (status, "2 updates accepted" in said) == (0, True)
    status, said = command("repair", run.folder)
    assert (status, "there is nothing to repair" in said) == (0, True)


def test_a_repair_goes_on_without_a_segment_that_is_gone(tmp_path: Path) -> None:
    run = Written(tmp_path, LARGE)
    for _ in range(2):
        run.push()
        run.group.snapshot(run.run.journal.store.last)
    run.push()
    run.close()
    [segment] = (run.folder / "segments").iterdir()
    segment.unlink()
    assert "cannot be read" in refusal(run)
    repair(run.folder, "e" * 16)
    again = Written(tmp_path, LARGE)
    assert again.run.coordinator.state.version == 2
    again.push()
    again.close()
    Written(tmp_path, LARGE).close()


def killed_in_the_cut(run: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair whose transaction is not committed."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Rows, "insert", killed)
        with pytest.raises(KeyboardInterrupt):
            repair(run.folder, "d" * 16)


def test_what_tells_of_a_loss_stays_until_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(tmp_path)
    run.push()
    run.push()
    run.group.snapshot(run.run.journal.store.last)
    run.close()
    (run.folder / "journal.mark").unlink()
    change(run.folder, "DELETE FROM records WHERE number > 4")
    snapshot = "snapshots/000000000006.safetensors"
    content = (run.folder / snapshot).read_bytes()
    killed_in_the_cut(run, monkeypatch)
    assert f"{snapshot} holds record 6, the journal's last one is 4" in refusal(run)
    repair(run.folder, "e" * 16)
    cut = records(run.folder)[4]
    assert isinstance(cut, Cut)
    kept = run.folder / cut.kept / "000000000006.safetensors"
    assert kept.read_bytes() == content
    assert not (run.folder / snapshot).exists()
    again = Written(tmp_path)
    for _ in range(3):
        again.push()
    digest = again.digest
    again.close()
    again = Written(tmp_path)
    assert again.digest == digest
    again.close()


def test_a_start_finishes_a_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(tmp_path)
    run.push()
    run.push()
    run.group.snapshot(run.run.journal.store.last)
    run.close()
    change(run.folder, "DELETE FROM records WHERE number > 4")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Snapshots, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            repair(run.folder, "e" * 16)
    assert len(list((run.folder / "snapshots").iterdir())) == 1
    status, said = command("verify", run.folder)
    assert (status, "1 updates accepted" in said) == (0, True)
    with pytest.raises(JournalError, match="its server ended while it cut records off"):
        backup(run.folder, tmp_path / "copy")
    again = Written(tmp_path)
    assert again.run.coordinator.state.version == 1
    assert not list((run.folder / "snapshots").iterdir())
    again.close()
    assert backup(run.folder, tmp_path / "copy") == 6


def test_a_gap_is_known_until_it_is_cut(
    torn: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    (torn.folder / "journal.mark").unlink()
    log = log_of(torn)
    content = bytearray(log.read_bytes())
    flipped(content, HEAD + (len(content) - HEAD) // FRAME // 2 * FRAME)
    log.write_bytes(content)
    killed_in_the_cut(torn, monkeypatch)
    assert "had been written, and it ends with record" in refusal(torn)
    kept = torn.folder / "cut" / "database" / log.name
    assert kept.read_bytes() == content
    repair(torn.folder, "e" * 16)
    again = open_run(torn.config, 3.0)
    assert again.coordinator.state.epoch == "e" * 16
    again.journal.close()


def killed_after_the_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair whose process does nothing more once its transaction is committed.

    What lies there then is taken away, so that closing changes none of it.
    """
    alive = folder.with_name("repaired")
    shutil.copytree(folder, alive)
    cut = SqliteStore.cut

    def killed(*given: Any) -> None:
        cut(*given)
        shutil.rmtree(folder)
        shutil.copytree(alive, folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "cut", killed)
        with pytest.raises(KeyboardInterrupt):
            repair(alive, "e" * 16)


def test_a_repaired_gap_is_no_other_gap(
    torn: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(torn)
    content = bytearray(log.read_bytes())
    flipped(content, HEAD + (len(content) - HEAD) // FRAME // 2 * FRAME)
    log.write_bytes(content)
    killed_after_the_cut(torn.folder, monkeypatch)
    again = open_run(torn.config, 3.0)
    assert again.coordinator.state.epoch == "e" * 16
    again.journal.close()


def test_a_segment_that_is_gone_does_not_refuse_a_run_that_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(tmp_path, LARGE)
    run.push()
    run.group.snapshot(run.run.journal.store.last)
    run.push()
    run.close()
    [segment] = (run.folder / "segments").iterdir()
    segment.unlink()
    killed_after_the_cut(run.folder, monkeypatch)
    again = open_run(run.config, 3.0)
    assert again.coordinator.state.epoch == "e" * 16
    again.journal.close()


def test_attempts_that_fail_leave_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET checksum = checksum + 1 WHERE number = 8")

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(aside, "sync_file", full)
        for _ in range(3):
            with pytest.raises(DiskError, match="the disk is full"):
                open_run(run.config, 2.0)
    assert [path.name for path in (run.folder / "cut").iterdir()] == [".making"]
    for _ in range(3):
        killed_in_the_cut(run, monkeypatch)
    Written(tmp_path).close()
    assert [path.name for path in (run.folder / "cut").iterdir()] == ["000000000008"]


def test_a_second_cut_at_a_record_takes_another_folder(tmp_path: Path) -> None:
    for number in ("", "-2"):
        run = written(tmp_path)
        update = "UPDATE records SET body = body || ' ' WHERE number >= 5"
        change(run.folder, update)
        repair(run.folder, f"{number:e>16}")
        kept = records(run.folder)[4]
        assert isinstance(kept, Cut)
        assert kept.kept == f"cut/000000000005{number}"


def test_a_repair_forgets_payloads_that_a_snapshot_holds(tmp_path: Path) -> None:
    run = Written(tmp_path, LARGE)
    run.push()
    run.group.snapshot(run.run.journal.store.last)
    run.close()
    [segment] = (run.folder / "segments").iterdir()
    segment.unlink()
    assert "cannot be read" in refusal(run)
    status, said = command("repair", run.folder)
    assert (status, "1 payloads up to record 3 lie in segments that" in said) == (
        0,
        True,
    )
    again = Written(tmp_path, LARGE)
    assert again.digest == run.digest
    assert again.run.coordinator.state.epoch == run.run.coordinator.state.epoch
    again.close()
    assert "there is nothing to repair" in command("repair", run.folder)[1]


# ------------------------------------------------------------------- beginnings


def test_a_run_that_was_killed_while_it_was_made_begins(tmp_path: Path) -> None:
    run = written(tmp_path)
    spare = tmp_path / "spare"
    shutil.copytree(run.folder / "models", spare / "models")
    shutil.rmtree(run.folder)
    for step in ("nothing", "empty", "schema"):
        shutil.copytree(spare, run.folder)
        if step == "empty":
            (run.folder / "journal.sqlite3").touch()
        if step == "schema":  # as an older program left it
            db = sqlite3.connect(run.folder / "journal.sqlite3", isolation_level=None)
            db.execute("PRAGMA journal_mode=WAL")
            from fedrun.journal.database import SCHEMA, SCHEMA_VERSION

            made = f"{SCHEMA} PRAGMA user_version={SCHEMA_VERSION};"
            db.executescript(f"BEGIN; {made} COMMIT;")
            db.close()
        assert not exists(run.folder)
        Written(tmp_path).close()
        assert exists(run.folder)
        shutil.rmtree(run.folder)


def test_schema_and_first_record_are_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Rows, "insert", killed)
        with pytest.raises(KeyboardInterrupt):
            Written(tmp_path)
    assert not exists(tmp_path / "run")
    written(tmp_path)


def test_a_file_system_without_shared_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sqlite3.connect

    def connect(name: str, **given: object) -> sqlite3.Connection:
        return real(f"{name}&vfs=unix-dotfile", **given)  # type: ignore[call-overload]

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(JournalError, match="expected journal_mode wal, got delete"):
        Written(tmp_path)
