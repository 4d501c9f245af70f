"""The server's disk: full, read-only, taken, or failing under its hands."""

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from fedwire.v1 import federation_pb2 as pb

from fedcore.errors import JournalError
from fedrun.exits import exit_status
from fedrun.journal import verify
from fedrun.journal.codec import Row
from fedrun.journal.journal import Journal
from fedrun.journal.store import NO_FACTS, Facts
from fedserver.cli import main
from tests.fedserver.honest import still_serves
from tests.peer import Peer, packed
from tests.served import Served, ones, settings, until

GOOD = packed(ones())
DIM = 200_000  # updates of 0.8 MB, which lie in segments


def mount(*words: str) -> None:
    """Mounts something, or skips the test where that is not allowed."""
    done = subprocess.run(["mount", *words], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.decode().strip()}")


@contextlib.contextmanager
def mounted(folder: Path, *words: str) -> Iterator[Path]:
    """A folder on a file system of its own."""
    folder.mkdir()
    mount(*words, str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes."""
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "tmpfs") as disk:
        yield disk


def command(config: Any) -> Any:
    """``fedserver run`` with this config, in this process."""
    path = config.model.parent / "federation.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    return CliRunner().invoke(main, ["run", str(path), "--lines"])


def fill(disk: Path) -> Path:
    """Leaves no room on a disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 12))
    return ballast


def push_often(peer: Peer) -> None:
    """A full disk may still have room in a file that is there."""
    for _ in range(100):
        assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED


def test_a_full_disk_ends_the_server_with_a_sentence_and_loses_nothing(
    tmp_path: Path, small_disk: Path
) -> None:
    config = settings(tmp_path, server={"journal": str(small_disk / "run")})
    run = Served(tmp_path, config)
    with run:
        still_serves(run)
        with Peer(run.address) as peer:
            peer.pull()
            assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED
            ballast = fill(small_disk)
            with pytest.raises(grpc.RpcError):  # no acknowledgement from a full disk
                push_often(peer)
            accepted = 1 + peer.seq
        run.wait()
    assert isinstance(run.error, JournalError)
    assert "the disk is full" in str(run.error)
    assert exit_status(run.error) == 74
    ballast.unlink()
    with run:
        assert run.state.applied == accepted
        still_serves(run)


def test_a_run_cannot_begin_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    fill(small_disk)
    config = settings(tmp_path, server={"journal": str(small_disk / "run")})
    done = command(config)
    assert (done.exit_code, done.stderr.count("\n")) == (74, 1)
    assert "run: cannot be written: No space left on device" in done.stderr


def test_a_journal_on_a_read_only_disk_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = settings(tmp_path)
    with Served(tmp_path, config) as server:
        still_serves(server)
    mount("--bind", str(run), str(run))
    try:
        mount("-o", "remount,ro,bind", str(run))
        done = command(config)
        assert (done.exit_code, done.stderr.count("\n")) == (74, 1)
        assert f"{run}: cannot be written: Read-only file system" in done.stderr
    finally:
        subprocess.run(["umount", str(run)], check=True)
    with Served(tmp_path, config) as server:
        still_serves(server)


def test_a_journal_may_not_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("in the way")
    done = command(settings(tmp_path))
    assert (done.exit_code, done.stderr.count("\n")) == (74, 1)
    assert "run: cannot be written: " in done.stderr


def test_two_servers_on_one_journal_are_refused(server: Served) -> None:
    done = command(server.config)
    assert done.exit_code == 74
    assert f"is in use by another server (process {os.getpid()})" in done.stderr
    still_serves(server)


def test_a_file_that_may_not_grow_is_a_disk_that_failed(tmp_path: Path) -> None:
    # A limit on the size of files holds for a whole process, so it is another one.
    config = settings(tmp_path, dim=DIM)
    path = tmp_path / "federation.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    limit = 4 << 20  # the model fits, a segment does not
    process = subprocess.Popen(
        [sys.executable, "-m", "fedserver", "run", str(path), "--lines"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    try:
        assert process.stdout is not None
        address = yaml.safe_load(process.stdout.readline())["address"]
        with Peer(address, dim=DIM) as peer:
            peer.pull()
            with pytest.raises(grpc.RpcError):
                peer.push(packed(ones(DIM)))
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, errors.count("\n")) == (74, 1), errors
    assert "error: " in errors
    with Served(tmp_path, config) as server:
        assert server.state.version == 0
        still_serves(server)


class Faulty:
    """The seam to the disk, with a fault behind it."""

    def __init__(self, server: Served) -> None:
        self._store: Any = server.run.journal.store
        self.fault: Callable[[], None] = lambda: None

    def append(self, records: Sequence[Row], facts: Facts = NO_FACTS) -> int:
        """Fails if the fault does."""
        self.fault()
        return int(self._store.append(records, facts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_nothing_is_acknowledged_that_the_disk_did_not_take(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path))

    def fail() -> None:
        raise JournalError("the disk is on fire")

    with run, Peer(run.address) as peer:
        faulty = Faulty(run)
        run.run.journal.store = faulty
        peer.pull()
        assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED
        faulty.fault = fail
        with pytest.raises(grpc.RpcError):
            peer.push(GOOD)
        run.wait()
        assert str(run.error) == "the disk is on fire"
    with run:
        assert run.state.applied == 1
        with Peer(run.address) as peer:
            peer.pull()
            peer.seq = 1
            assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED  # the same once more
        still_serves(run)


def test_a_snapshot_that_does_not_fit_ends_the_server_with_a_sentence(
    tmp_path: Path, small_disk: Path
) -> None:
    config = settings(
        tmp_path,
        dim=100_000,
        server={"journal": str(small_disk / "run")},
    )
    run = Served(tmp_path, config)
    with run:
        ballast = fill(small_disk)
        with ballast.open("r+b") as file:  # room for records, not for a model
            file.truncate(ballast.stat().st_size - (200 << 10))
        run.stop()
    assert isinstance(run.error, JournalError)
    assert str(run.error).endswith("000000000001.safetensors: the disk is full")
    assert exit_status(run.error) == 74
    ballast.unlink()
    with run:
        assert run.state.version == 0


def test_large_updates_survive_a_restart_bit_for_bit(tmp_path: Path) -> None:
    config = settings(tmp_path, dim=DIM)
    run = Served(tmp_path, config)
    rng = np.random.default_rng(0)
    with run, Peer(run.address, dim=DIM) as peer:
        peer.pull()
        for _ in range(3):
            update = rng.standard_normal(DIM).astype(np.float32)
            assert peer.push(packed(update)).answer == pb.ANSWER_ACCEPTED
        until(lambda: run.state.version == 3, "all are applied")
        digest = run.state.published.digest
    for snapshot in (tmp_path / "run" / "snapshots").iterdir():
        snapshot.unlink()
    journal = Journal.open(tmp_path / "run")
    found = verify(journal)
    journal.close()
    assert (found.digest, found.accepted, found.recomputed) == (digest, 3, 6)
