import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedcore.errors import JournalError
from fedrun.journal import Journal, backup, restore, verify
from fedrun.journal.sqlite import SqliteStore
from fedrun.run import fresh_name, open_run
from fedserver.cli import main
from tests.fedrun.journal.runs import LARGE, Written, change, written


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
    for call in (
        lambda: backup(run.folder, tmp_path / "copy"),
        lambda: restore(tmp_path / "copy", run.folder, fresh_name),
    ):
        with pytest.raises(JournalError, match="there is a run already; move it away"):
            call()


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
    tries: list[Path] = []
    copy_to = SqliteStore.copy_to

    def copy(store: SqliteStore, path: Path) -> None:
        if tries:
            gone.unlink()
        tries.append(path)
        copy_to(store, path)

    monkeypatch.setattr(SqliteStore, "copy_to", copy)
    assert backup(run.folder, tmp_path / "copy") == 8
    assert len(tries) == 2


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
