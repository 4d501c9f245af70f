"""The strategy in Flower's own processes: a SuperLink, SuperNodes and ``flwr run``."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("flwr.app")
from benchmarks.flower.processes import Commands, copied
from fedcore.coordinator.events import Decided, Enrolled, Stepped
from fedcore.errors import JournalError
from fedcore.protocol import Verdict
from fedrun.journal import Journal
from fedrun.journal.store import Row
from tools.local import free_port

pytestmark = [pytest.mark.needs("flwr"), pytest.mark.heavy]
NODES, VERSIONS, LIMIT = 3, 6, 900.0


def test_a_killed_server_app_goes_on_and_a_killed_node_holds_nobody_up(
    tmp_path: Path,
) -> None:
    app, run = copied("with-latecomer", tmp_path), tmp_path / "run"
    with Commands(tmp_path) as commands, commands.super_link() as port:
        nodes = [super_node(commands, port, index) for index in range(NODES)]
        flwr_run(commands, app, run)
        until(lambda: versions(run) >= 2, "two versions")
        before = accepted(run)
        for pid in server_apps(tmp_path):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not server_apps(tmp_path), "the ServerApp is gone")
        assert accepted(run)[: len(before)] == before

        flwr_run(commands, app, run)
        until(lambda: versions(run) >= 3, "a version of the second ServerApp")
        os.killpg(nodes[0].pid, signal.SIGKILL)
        until(lambda: versions(run) >= VERSIONS, "all versions")

    seqs = [(r.cid, r.seq) for r in records(run) if isinstance(r, Decided)]
    assert len(seqs) == len(set(seqs))
    stepped = [r for r in records(run) if isinstance(r, Stepped)]
    assert sum(r.count for r in stepped) == len(accepted(run))
    assert len({r.name for r in records(run) if isinstance(r, Enrolled)}) >= NODES


def super_node(commands: Commands, port: int, index: int) -> "subprocess.Popen[bytes]":
    """Starts a SuperNode."""
    return commands.start(
        [
            "flower-supernode",
            "--insecure",
            *("--superlink", f"127.0.0.1:{port}"),
            *("--port", str(free_port())),
            *("--node-config", f"partition-id={index} num-partitions={NODES}"),
        ],
        f"node-{index}.log",
    )


def flwr_run(commands: Commands, app: Path, run: Path) -> None:
    """Submits the app."""
    config = f'num-server-rounds={VERSIONS} buffer=2 journal="{run}"'
    commands.run(["flwr", "run", str(app), "link", "--run-config", config])


def until(condition: Callable[[], bool], what: str) -> None:
    """Looks again and again until something is so."""
    limit = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < limit, f"not within {LIMIT:g} s: {what}"
        time.sleep(0.5)


def records(run: Path) -> list[Row]:
    """The records of a journal; none while there is none."""
    try:
        journal = Journal.open(run, read_only=True)
    except JournalError:
        return []
    try:
        return [entry.record for entry in journal.store.entries(payloads=False)]
    finally:
        journal.close()


def versions(run: Path) -> int:
    """The newest version."""
    return max((r.version for r in records(run) if isinstance(r, Stepped)), default=0)


def accepted(run: Path) -> list[Decided]:
    """The updates that were acknowledged."""
    found = (r for r in records(run) if isinstance(r, Decided))
    return [r for r in found if r.verdict is Verdict.ACCEPTED]


def server_apps(folder: Path) -> list[int]:
    """The ids of the ServerApps that have this folder as their Flower home."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
                place = (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"flwr-serverapp" in words and str(folder).encode() in place:
                found.append(int(entry.name))
    return found
