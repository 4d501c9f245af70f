"""Who may read what a run and its clients leave on the disk."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fedwire.connect import parse_address

from fedclient.state.store import ClientStore
from fedclient.work.membership import Identity, Membership
from fedrun.files import save_model
from fedserver.cli import main
from tests.fedclient.test_member import workload
from tests.peer import Peer, packed
from tests.served import Served, served, settings, spec_of

OTHERS = 0o077
LARGE = 70_000  # values, whose payloads go to a segment


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable(folder: Path) -> list[str]:
    """All below a folder, and the folder itself, that others may enter or read."""
    found = [folder, *folder.rglob("*")]
    return [
        str(each)
        for each in found
        if each.lstat().st_mode & OTHERS and (each == folder or each.is_file())
    ]


def test_a_run_and_its_backup_are_for_their_user_alone(tmp_path: Path) -> None:
    config = settings(tmp_path, LARGE, journal={"snapshot_records": 2})
    with Served(tmp_path, config) as server:
        with Peer(server.address, "ann", LARGE) as peer:
            peer.pull()
            peer.push(packed(np.ones(LARGE, np.float32)))
        run = server.config.server.journal
        assert list((run / "segments").iterdir())
        assert readable(run) == []  # with all of SQLite's files
        backup = tmp_path / "backup"
        done = CliRunner().invoke(main, ["backup", str(run), str(backup)])
        assert done.exit_code == 0
        assert readable(backup) == []
    assert list((run / "snapshots").iterdir())
    assert readable(run) == []


def test_a_folder_that_was_open_is_closed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o755)
    with served(tmp_path):
        assert readable(run) == []


def test_a_clients_state_is_for_its_user_alone(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        state = tmp_path / "state"
        member = Membership(
            parse_address(server.address),
            workload().flat(),
            ClientStore(state),
            Identity(),
        )
        member.enrol()
        assert {path.name for path in state.iterdir()} >= {"lock", "state.sqlite3"}
        assert readable(state) == []
        member.close()


def test_a_model_for_others_can_be_read_by_others(tmp_path: Path) -> None:
    made = tmp_path / "made.safetensors"
    save_model(made, spec_of(3), np.zeros(3, np.float32))
    assert made.stat().st_mode & 0o777 == 0o644
    with served(tmp_path) as server, Peer(server.address) as peer:
        peer.pull()
        run = server.config.server.journal
    for which in ("initial", "exact"):
        out = tmp_path / f"{which}.safetensors"
        words = ["export", str(run), "-o", str(out), "--which", which]
        assert CliRunner().invoke(main, words).exit_code == 0
        assert out.stat().st_mode & 0o777 == 0o644
    os.umask(0o077)
    made = tmp_path / "mine.safetensors"
    save_model(made, spec_of(3), np.zeros(3, np.float32))
    assert made.stat().st_mode & 0o777 == 0o600
