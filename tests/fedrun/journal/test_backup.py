from pathlib import Path

import pytest
from click.testing import CliRunner

from fedcore.errors import JournalError
from fedrun.journal import Journal, backup, restore, verify
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
