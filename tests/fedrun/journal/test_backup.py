import contextlib
import os
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedcore.coordinator.events import HistoryForked
from fedcore.errors import JournalError
from fedrun.journal import Journal, backup, exists, recover, restore, verify
from fedrun.journal.sqlite import SqliteStore
from fedrun.run import fresh_name, open_run
from fedserver.cli import main
from tests.fedrun.journal.runs import LARGE, Written, change, records, written


@pytest.mark.parametrize("dim", [100, LARGE])
def test_a_restored_run_is_an_older_history_of_its_own(
    tmp_path: Path, dim: int
) -> None:
    run = Written(tmp_path, dim)
    run.push()
    digest, epoch = run.digest, run.run.coordinator.state.epoch
    assert backup(run.folder, tmp_path / "copy") == run.run.journal.store.last
    run.push()  # the run goes on meanwhile
    run.close()
    moved = run.folder.rename(tmp_path / "old")
    opened = restore(tmp_path / "copy", run.folder, fresh_name)
    again = Written(tmp_path, dim)
    state = again.run.coordinator.state
    assert (again.digest, state.version, state.epoch) == (digest, 1, opened)
    assert opened != epoch
    again.push()
    again.close()
    for folder in (moved, run.folder):
        journal = Journal.open(folder)
        assert verify(journal).accepted == 2
        journal.close()


def test_a_backup_refuses_a_plain_start(tmp_path: Path) -> None:
    run = written(tmp_path)
    backup(run.folder, tmp_path / "copy")
    with pytest.raises(
        JournalError, match="is a backup; bring it back with: fedserver"
    ):
        Journal.open(tmp_path / "copy")
    Journal.open(tmp_path / "copy", read_only=True).close()  # looking is allowed


def test_a_restored_run_can_be_restored_again(tmp_path: Path) -> None:
    run = written(tmp_path)
    backup(run.folder, tmp_path / "copy")
    first = restore(tmp_path / "copy", tmp_path / "one", fresh_name)
    second = restore(tmp_path / "copy", tmp_path / "two", fresh_name)
    assert first != second


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    run = written(tmp_path)
    backup(run.folder, tmp_path / "copy")
    (tmp_path / "else").mkdir()
    other = written(tmp_path / "else")
    for call in (
        lambda: backup(run.folder, other.folder),
        lambda: restore(tmp_path / "copy", run.folder, fresh_name),
        lambda: restore(tmp_path / "copy", tmp_path / "copy", fresh_name),
    ):
        with pytest.raises(JournalError, match="there is a run already; move it away"):
            call()
    with pytest.raises(JournalError, match=r"is a copy of run .* is run "):
        backup(other.folder, tmp_path / "copy")


@pytest.mark.parametrize("dim", [100, LARGE])
def test_a_second_backup_adds_what_is_new(tmp_path: Path, dim: int) -> None:
    run, copy = Written(tmp_path, dim), tmp_path / "copy"
    run.push()
    run.group.snapshot(run.run.journal.store.last)
    backup(run.folder, copy)
    [old] = (copy / "snapshots").iterdir()
    before = old.stat().st_ino, (copy / "models" / "initial.safetensors").stat().st_ino
    copied: list[int] = []
    with pytest.MonkeyPatch.context() as patched:
        take_over = SqliteStore.take_over

        def counting(store: SqliteStore, rows: Any, facts: Any) -> int:
            found = list(rows)
            copied.extend(row.number for row in found)
            return take_over(store, found, facts)

        patched.setattr(SqliteStore, "take_over", counting)
        for _ in range(2):
            run.push()
        run.group.snapshot(run.run.journal.store.last)
        assert backup(run.folder, copy) == 8
        assert copied == [5, 6, 7, 8]
        assert backup(run.folder, copy) == 8
        assert len(copied) == 4
    after = old.stat().st_ino, (copy / "models" / "initial.safetensors").stat().st_ino
    assert after == before
    run.close()
    run.folder.rename(tmp_path / "old")
    restore(copy, run.folder, fresh_name)
    again = Written(tmp_path, dim)
    assert again.digest == run.digest
    again.push()
    again.close()


def test_a_backup_follows_a_run_that_drops_its_payloads(tmp_path: Path) -> None:
    run, copy = Written(tmp_path, LARGE, journal={"keep_bytes": 0}), tmp_path / "copy"
    for _ in range(3):
        for _ in range(2):
            run.push()
            run.group.snapshot(run.run.journal.store.last)
        backup(run.folder, copy)
        with closing(SqliteStore(copy, read_only=True)) as there:
            assert there.first_payload() == run.run.journal.store.first_payload() > 0
        names = [
            sorted(path.name for path in (folder / "snapshots").iterdir())
            for folder in (run.folder, copy)
        ]
        assert names[0] == names[1]
    run.close()
    restore(copy, tmp_path / "new", fresh_name)
    journal = Journal.open(tmp_path / "new")
    assert recover(journal).coordinator.state.published.digest == run.digest
    journal.close()


def test_what_was_dropped_up_to_a_snapshot_is_dropped_in_the_copy(
    tmp_path: Path,
) -> None:
    algorithm = {"kind": "fed_buff", "buffer": 2}
    run, copy = Written(tmp_path, algorithm=algorithm), tmp_path / "copy"
    for _ in range(3):
        run.push()
    run.group.snapshot(6)
    backup(run.folder, copy)
    run.run.journal.store.drop_payloads(6)
    backup(run.folder, copy)
    with closing(SqliteStore(copy, read_only=True)) as there:
        assert there.first_payload() == run.run.journal.store.first_payload() == 6
    run.close()


def test_another_history_of_a_run_goes_into_another_folder(tmp_path: Path) -> None:
    run, copy = Written(tmp_path), tmp_path / "copy"
    run.push()
    backup(run.folder, copy)
    run.push()
    backup(run.folder, tmp_path / "later")
    run.close()
    shutil.rmtree(run.folder)
    restore(copy, run.folder, fresh_name)
    with pytest.raises(JournalError, match="is a copy of another history of run"):
        backup(run.folder, tmp_path / "later")
    backup(run.folder, copy)  # of which it is a continuation


class Killed(BaseException):
    """As SIGKILL: nothing is tidied up."""


@pytest.mark.parametrize("first", [True, False])
def test_a_backup_may_be_killed_anywhere(tmp_path: Path, first: bool) -> None:
    for moment in range(40):
        place = tmp_path / str(moment)
        place.mkdir()
        run, copy = Written(place, LARGE), place / "copy"
        run.push()
        run.group.snapshot(run.run.journal.store.last)
        if not first:
            backup(run.folder, copy)
        run.push()
        run.group.snapshot(run.run.journal.store.last)
        run.close()
        done = interrupted(run.folder, copy, moment)
        if exists(copy):
            restore(copy, place / "new", fresh_name)
            journal = Journal.open(place / "new")
            version = recover(journal).coordinator.state.version
            journal.close()
            assert version in ((2,) if first or done else (1, 2))
        elif not first:
            raise AssertionError("the backup that was there is gone")
        assert backup(run.folder, copy) == 6
        shutil.rmtree(place)
        if done:
            break
    else:
        raise AssertionError("it never came to its end")


def interrupted(folder: Path, copy: Path, moment: int) -> bool:
    """Kills a backup after so many of its syncs; whether it was through before."""
    left = [moment]

    def syncing(real: Any) -> Any:
        def sync(*given: Any) -> Any:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return real(*given)

        return sync

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", syncing(os.fsync))
        patched.setattr(os, "fdatasync", syncing(os.fdatasync))
        module = sys.modules[backup.__module__]
        patched.setattr(module, "_all_or_nothing", lambda _: contextlib.nullcontext())
        try:
            backup(folder, copy)
        except Killed:
            return False
    return True


def test_a_restore_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    run, copy = written(tmp_path), tmp_path / "copy"
    backup(run.folder, copy)

    def killed() -> str:
        shutil.copytree(tmp_path / "new", tmp_path / "crashed")
        raise Killed

    with pytest.raises(Killed):
        restore(copy, tmp_path / "new", killed)
    assert not (tmp_path / "new").exists()
    epoch = restore(copy, tmp_path / "crashed", fresh_name)
    journal = Journal.open(tmp_path / "crashed")
    state = recover(journal).coordinator.state
    assert (state.version, state.epoch) == (3, epoch)
    journal.close()


def test_there_must_be_something_to_copy(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal here"):
        backup(tmp_path / "nothing", tmp_path / "copy")
    with pytest.raises(JournalError, match="no backup here"):
        restore(tmp_path / "nothing", tmp_path / "run", fresh_name)


def test_damage_is_not_copied(tmp_path: Path) -> None:
    run = written(tmp_path)
    change(run.folder, "UPDATE records SET checksum = 0 WHERE number = 3")
    with pytest.raises(JournalError, match="record 3 cannot be copied"):
        backup(run.folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_who_is_refused_changes_nothing(tmp_path: Path) -> None:
    run = written(tmp_path)
    (tmp_path / "else").mkdir()
    other = written(tmp_path / "else")
    for path in (other.folder, other.folder / "journal.sqlite3"):
        path.chmod(path.stat().st_mode | 0o044)
    before = {path: path.stat().st_mode for path in other.folder.rglob("*")}
    with pytest.raises(JournalError, match="there is a run already"):
        backup(run.folder, other.folder)
    assert {path: path.stat().st_mode for path in before} == before
    assert other.folder.stat().st_mode & 0o044 == 0o044


def test_models_that_changed_are_copied_anew(tmp_path: Path) -> None:
    run, copy = Written(tmp_path, stop={"versions": 2}), tmp_path / "copy"
    run.push()
    backup(run.folder, copy)
    assert not (copy / "models" / "last.safetensors").exists()
    run.push()
    run.close()
    for _ in range(2):
        backup(run.folder, copy)
        for name in ("initial", "last"):
            file = f"models/{name}.safetensors"
            assert (copy / file).read_bytes() == (run.folder / file).read_bytes()
            assert (copy / file).stat().st_mode & 0o777 == 0o600
        (run.folder / "models" / "last.safetensors").write_bytes(b"another one")


def test_a_copy_keeps_its_newest_snapshot_whatever_becomes_of_the_run(
    tmp_path: Path,
) -> None:
    run, copy = Written(tmp_path), tmp_path / "copy"
    for _ in range(2):
        run.push()
        run.group.snapshot(run.run.journal.store.last)
    backup(run.folder, copy)
    for number in (4, 6):
        run.run.journal.snapshots.remove(number)
    backup(run.folder, copy)
    there = [path.stem for path in (copy / "snapshots").iterdir()]
    assert there == ["000000000006"]
    run.push()
    run.group.snapshot(9)  # of records that are not there
    run.group.snapshot(8)
    backup(run.folder, copy)
    there = sorted(path.name for path in (copy / "snapshots").iterdir())
    assert there == ["000000000008.safetensors", "000000000009.copied"]
    run.close()


def test_a_copy_opens_its_history_with_the_reason(tmp_path: Path) -> None:
    run = written(tmp_path)
    backup(run.folder, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "new", lambda: "e" * 16)
    last = records(tmp_path / "new")[-1]
    assert isinstance(last, HistoryForked)
    assert (last.at, last.epoch, last.version) == (1.0, "e" * 16, 3)
    assert last.reason == "restored from a backup"


def test_what_is_being_written_is_not_copied(tmp_path: Path) -> None:
    run = written(tmp_path)
    (run.folder / "models" / ".last.safetensors.tmp").write_text("half a mod")
    backup(run.folder, tmp_path / "copy")
    copied = [path.name for path in (tmp_path / "copy" / "models").iterdir()]
    assert copied == ["initial.safetensors"]


def vanishing(run: Written) -> Path:
    """A name without a file: what a copy finds if it is removed meanwhile."""
    (run.folder / "snapshots").mkdir()
    path = run.folder / "snapshots" / "000000000004.safetensors"
    path.symlink_to("nowhere")
    return path


def test_a_file_that_vanishes_meanwhile_makes_another_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path)
    gone = vanishing(run)
    tries: list[object] = []
    copyfile = shutil.copyfile

    def copy(source: Path, target: Path) -> object:
        if source == gone:
            if tries:
                gone.unlink()
            tries.append(source)
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy)
    assert backup(run.folder, tmp_path / "copy") == 8
    assert len(tries) == 2


def test_a_run_that_never_stands_still_is_not_copied_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path)
    gone = vanishing(run)
    tries: list[object] = []
    copyfile = shutil.copyfile

    def copy(source: Path, target: Path) -> object:
        if source == gone:
            tries.append(source)
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy)
    with pytest.raises(JournalError, match="cannot copy the run"):
        backup(run.folder, tmp_path / "copy")
    assert len(tries) == 5


def test_of_a_failed_backup_nothing_is_left_but_what_lay_there(tmp_path: Path) -> None:
    run = written(tmp_path)
    gone = vanishing(run)
    for name in ("copy", "mine"):
        if name == "mine":
            (tmp_path / "mine").mkdir()
            (tmp_path / "mine" / "notes.txt").write_text("mine")
        with pytest.raises(JournalError, match="cannot copy the run"):
            backup(run.folder, tmp_path / name)
    assert not (tmp_path / "copy").exists()
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    gone.unlink()
    backup(run.folder, tmp_path / "copy")


def test_a_restore_that_was_cut_short_does_not_start(tmp_path: Path) -> None:
    run = written(tmp_path)
    backup(run.folder, tmp_path / "copy")
    crashed = tmp_path / "crashed"

    def fresh_epoch() -> str:
        shutil.copytree(tmp_path / "new", crashed)  # as a crash would leave it here
        return fresh_name()

    restore(tmp_path / "copy", tmp_path / "new", fresh_epoch)
    with pytest.raises(JournalError, match="crashed is a backup"):
        Journal.open(crashed)
    Journal.open(tmp_path / "new").close()


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    run, copy, new = written(tmp_path), tmp_path / "copy", tmp_path / "new"
    done = CliRunner().invoke(main, ["backup", str(run.folder), str(copy)])
    assert done.stdout == f"{copy} holds all 8 records of {run.folder}\n"
    done = CliRunner().invoke(main, ["restore", str(copy), str(new)])
    assert f"{new} is restored from {copy}; its history is now " in done.stdout
    done = CliRunner().invoke(main, ["restore", str(copy), str(new)])
    assert (done.exit_code, done.stderr.count("\n")) == (74, 1)


def test_a_config_may_name_a_restored_run(tmp_path: Path) -> None:
    run = written(tmp_path)
    backup(run.folder, tmp_path / "copy")
    run.folder.rename(tmp_path / "old")
    restore(tmp_path / "copy", run.folder, fresh_name)
    opened = open_run(run.config, 2.0)
    assert opened.run_id == run.run.run_id
    opened.journal.close()
