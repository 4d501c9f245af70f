"""The server's disk: full, read-only, taken, or failing under its hands."""

import contextlib
import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from fedwire.frames import chunk_frames, header_frame
from fedwire.v1 import federation_pb2 as pb

from fedcore.errors import DiskError, JournalError
from fedrun.cli.exit_codes import exit_code
from fedrun.journal import verify
from fedrun.journal.journal import Journal
from fedrun.journal.store import NO_FACTS, Facts, Row
from fedserver.cli import main
from tests.fedrun.journal.runs import LARGE, Written
from tests.fedserver.honest import still_serves
from tests.patience import PATIENCE
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
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of a few megabytes, to which no record comes but with an answer."""
    monkeypatch.setattr("fedserver.core.IDLE_SECONDS", 3600.0)
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "tmpfs") as disk:
        yield disk


def command(config: Any) -> Any:
    """``fedserver run`` with this config, in this process."""
    path = config.model.parent / "federation.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    return CliRunner().invoke(main, ["run", str(path), "--log", "json"])


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


def refused(peer: Peer) -> str:
    """How a server whose disk takes nothing answers whoever comes now."""
    with pytest.raises(grpc.RpcError) as caught:
        peer.pull()
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    return str(error.details())


def stalled(run: Served) -> bool:
    """Whether the disk takes no records now."""
    return bool(run.server._core.trouble)


def test_a_full_disk_holds_the_server_up_and_loses_nothing(
    tmp_path: Path, small_disk: Path
) -> None:
    config = settings(tmp_path, server={"journal": str(small_disk / "run")})
    run = Served(tmp_path, config)
    with run, Peer(run.address) as peer, Peer(run.address, "other") as other:
        peer.pull()
        ballast = fill(small_disk)
        with ThreadPoolExecutor(1) as pool:
            pushing = pool.submit(push_often, peer)
            until(lambda: stalled(run), "the disk is full")
            known = peer.seq  # what was acknowledged
            assert "disk is full or fails; come back later" in refused(other)
            status = json.loads(other.stub.status(pb.StatusRequest()).json)
            assert "the disk is full" in status["disk"]
            assert known == peer.seq < 100
            ballast.unlink()
            pushing.result(30)
        assert other.pull().version == 100
        assert run.state.applied == 100
    assert run.error is None
    with run:
        assert run.state.applied == 100
        still_serves(run)


def test_a_server_that_is_stopped_on_a_full_disk_says_so_and_loses_nothing(
    tmp_path: Path, small_disk: Path
) -> None:
    config = settings(tmp_path, server={"journal": str(small_disk / "run")})
    run = Served(tmp_path, config)
    with run, Peer(run.address) as peer:
        peer.pull()
        ballast = fill(small_disk)
        with ThreadPoolExecutor(1) as pool:
            pushing = pool.submit(push_often, peer)
            until(lambda: stalled(run), "the disk is full")
            run.stop()
            with pytest.raises(grpc.RpcError):
                pushing.result(30)
    assert isinstance(run.error, JournalError)
    assert "the disk is full" in str(run.error)
    assert exit_code(run.error) == 74
    ballast.unlink()
    with run:
        assert run.state.applied == peer.seq
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
        [sys.executable, "-m", "fedserver", "run", str(path), "--log", "json"],
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
            update = packed(ones(DIM))
            frames = [header_frame(peer.header(update)), *chunk_frames([update])]
            with pytest.raises(grpc.RpcError):
                peer.stub.push(iter(frames), timeout=3.0)
            assert "disk is full or fails" in refused(peer)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 74, errors
    *warnings, error = errors.splitlines()
    assert "no work is taken until the disk works again" in warnings[0]
    assert error.startswith("error: ")
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
        run.run.journal.store = faulty  # type: ignore[assignment]
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


@pytest.mark.parametrize("words", ["the disk is full", "Input/output error"])
def test_what_a_failing_disk_did_not_take_is_written_once_it_works(
    tmp_path: Path, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = Served(tmp_path, settings(tmp_path))
    failures: list[str] = []

    def fail() -> None:
        if not run.state.applied:
            return  # a record from before the push, on which no answer depends
        failures.append(words)
        raise DiskError(f"journal: {words}")

    with run, Peer(run.address) as peer, Peer(run.address, "other") as other:
        faulty = Faulty(run)
        run.run.journal.store = faulty  # type: ignore[assignment]
        peer.pull()
        faulty.fault = fail
        with ThreadPoolExecutor(1) as pool:
            pushing = pool.submit(peer.push, GOOD)
            until(lambda: stalled(run), "the disk fails")
            assert "disk is full or fails; come back later" in refused(other)
            assert not pushing.done()
            faulty.fault = lambda: None
            assert pushing.result(20).answer == pb.ANSWER_ACCEPTED
        assert peer.push(GOOD, seq=1).answer == pb.ANSWER_ACCEPTED  # the same once more
        assert run.state.applied == 1
        still_serves(run)
    assert failures
    said = f"journal: {words}; no work is taken until the disk works again"
    assert caplog.text.count(said) == 1  # however often it was tried
    assert caplog.text.count("the disk takes records again") == 1
    with run:
        assert run.state.applied == 2  # and that of whoever was served since


def test_a_disk_that_fails_is_left_in_peace_until_the_server_is_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedserver.core.AGAIN_SECONDS", 3600.0)
    run = Served(tmp_path, settings(tmp_path))
    failures: list[str] = []

    def fail() -> None:
        failures.append("once more")
        raise DiskError("journal: the disk is full")

    with run, Peer(run.address) as peer:
        faulty = Faulty(run)
        run.run.journal.store = faulty  # type: ignore[assignment]
        faulty.fault = fail
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(lambda: peer.enrol(name="another"))
            until(lambda: stalled(run), "the disk fails")
            run.stop()
            with pytest.raises(grpc.RpcError):
                asking.result(30)
    assert isinstance(run.error, DiskError)
    assert len(failures) == 2  # at first, and at the end


def test_a_sync_that_failed_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(tmp_path, LARGE)
    synced, written = os.fdatasync, os.pwritev
    places: list[int] = []

    def noting(file: int, parts: Any, place: int) -> int:
        places.append(place)
        return written(file, parts, place)

    def failing(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    run.push()
    monkeypatch.setattr(os, "pwritev", noting)
    monkeypatch.setattr(os, "fdatasync", failing)
    for _ in range(2):
        with pytest.raises(DiskError, match="Input/output error"):
            run.push() if not places else run.group.commit()
    monkeypatch.setattr(os, "fdatasync", synced)
    run.group.commit()
    assert len(places) == 3  # the bytes were written again each time ...
    assert len(set(places)) == 1  # ... to the place that was not synced
    run.close()
    again = Written(tmp_path, LARGE)
    assert (again.digest, again.seq) == (run.digest, {"ann": 2})
    again.close()


def test_a_snapshot_that_does_not_fit_is_a_warning_and_tried_again(
    tmp_path: Path, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(
        tmp_path,
        dim=100_000,
        server={"journal": str(small_disk / "run")},
        journal={"snapshot_records": 10},
    )
    run = Served(tmp_path, config)
    snapshots = small_disk / "run" / "snapshots"
    with run, Peer(run.address, dim=100_000) as peer:
        peer.pull()
        ballast = fill(small_disk)
        with ballast.open("r+b") as file:  # room for records, not for a model
            file.truncate(ballast.stat().st_size - (200 << 10))
        for _ in range(10):
            peer.enrol(name=f"now {peer.seq}")
            peer.seq += 1
        until(lambda: "no snapshot was written" in caplog.text, "it does not fit")
        assert not list(snapshots.iterdir())  # nor what was written of it
        ballast.unlink()
        for _ in range(3):
            peer.enrol(name=f"now {peer.seq}")
            peer.seq += 1
        until(lambda: list(snapshots.iterdir()), "it fits")
    assert run.error is None


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


def test_an_empty_volume_does_not_begin_a_new_run_where_one_must_be(
    tmp_path: Path,
) -> None:
    config = settings(tmp_path)
    path = tmp_path / "federation.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    done = CliRunner().invoke(
        main, ["run", str(path), "--log", "json", "--must-resume"]
    )
    assert (done.exit_code, done.stderr.count("\n")) == (74, 1)
    assert "there is no run here to resume; is the volume mounted?" in done.stderr
    assert not (tmp_path / "run").exists()
