"""The wall clock is asked once: what it does later moves no timer of a run."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fedwire.v1 import federation_pb2 as pb

from fedserver.core import Clock
from tests.peer import Peer, packed
from tests.served import ones, served, until

HOUR = 3600.0
SERVER = (
    "fedserver.core",
    "fedserver.server",
    "fedserver.calls.pushes",
    "fedserver.calls.callers",
    "tests.served",  # opens the run, as fedserver.serving does
)
GOOD = packed(ones())


def step_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Somebody sets the clock of the server's machine; gRPC here reads it, too."""
    stepped = SimpleNamespace(
        time=lambda: time.time() + seconds, monotonic=time.monotonic
    )
    for module in SERVER:
        monkeypatch.setattr(f"{module}.time", stepped, raising=False)


def test_a_clock_that_steps_back_does_not_freeze_a_pull_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {
        "timeouts": {"hold": 0.2},
        "algorithm": {"concurrency": 1},
    }
    with served(tmp_path, **changes) as server, Peer(server.address) as peer:
        assert peer.pull().task == pb.TASK_KIND_TRAIN
        step_clock(monkeypatch, -HOUR)
        with Peer(server.address, "other") as other:
            assert other.pull().task == pb.TASK_KIND_NONE


def test_a_clock_that_steps_back_does_not_freeze_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {
        "algorithm": {"buffer": 5, "deadline": 0.5, "minimum": 1}
    }
    with served(tmp_path, **changes) as server, Peer(server.address) as peer:
        step_clock(monkeypatch, -HOUR)
        peer.pull()
        assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED
        until(lambda: server.state.version, "the deadline passes")


def test_a_clock_that_jumps_ahead_does_not_end_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        served(tmp_path, stop={"seconds": HOUR / 2}) as server,
        Peer(server.address) as peer,
    ):
        step_clock(monkeypatch, HOUR)
        peer.pull()
        for _ in range(2):
            assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED
        assert server.state.closed is None
        assert server.state.at < time.time() + HOUR / 2


def test_between_processes_the_wall_clock_counts_but_never_backwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as server:
        first = server.state.at
    step_clock(monkeypatch, -HOUR)
    with served(tmp_path) as server, Peer(server.address) as peer:
        peer.pull()
        assert first <= server.state.at < first + 60.0
    step_clock(monkeypatch, 3 * HOUR)
    with served(tmp_path) as server:
        assert first + HOUR < server.state.at


def test_a_clock_goes_on_from_where_a_run_was() -> None:
    clock = Clock(1000.0)
    assert 1000.0 <= clock.now() <= clock.now() < 1060.0
