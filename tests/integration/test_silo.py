"""A client with workers of its own, in a real federation: killed, and refused."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedview.results import Results
from tests.integration.conftest import APP
from tests.served import until
from tools.local import Child, LocalFederation

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
Make = Callable[..., LocalFederation]
ALGORITHM: dict[str, Any] = {
    "kind": "fed_buff",
    "buffer": 1,
    "client": {"kind": "local_sgd", "lr": 0.1, "steps": 12, "batch": 32},
    "uplink": {"kind": "identity"},
    "downlink": {"kind": "identity"},
}


def trained(
    make: Make, name: str, *options: str, disturb: Callable[[Child], None] | None = None
) -> dict[str, Any]:
    """Runs one client to the end of a run; returns its last model."""
    real = make(name, algorithm=ALGORITHM, stop={"versions": 8})
    server = real.server()
    client = real.client(0, 1, *options, name="a")
    if disturb is not None:
        disturb(client)
    assert client.wait() == 0, client.tail()
    assert server.wait() == 0, server.tail()
    return dict(Results(real.run).model("last"))


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat[1]) == pid and stat[0] != "Z":
                found.append(int(folder.name))
    return found


def kill_one_worker_after_the_other(client: Child) -> None:
    assert client.process is not None
    pid = client.process.pid
    until(lambda: "update 1 accepted" in client.log.read_text(), "it is at work")
    for turn in range(4):
        before = children(pid)
        for worker in before[turn % 4 : turn % 4 + 1]:
            os.kill(worker, signal.SIGKILL)
        until(lambda seen=before: set(children(pid)) != set(seen), "it is gone")  # type: ignore[misc]


def test_a_killed_worker_changes_no_bit_of_the_federations_model(
    federation: Make,
) -> None:
    options = ("--workers", "4", "--stragglers", "1")
    quiet = trained(federation, "quiet", *options)
    killed = trained(
        federation, "killed", *options, disturb=kill_one_worker_after_the_other
    )
    alone = trained(federation, "alone")
    for name, tensor in quiet.items():
        np.testing.assert_array_equal(killed[name], tensor)
        np.testing.assert_allclose(alone[name], tensor, atol=2e-5)


def test_a_client_that_is_killed_or_stopped_leaves_no_worker(federation: Make) -> None:
    real = federation("fed", algorithm=ALGORITHM)
    real.server()
    client = real.client(0, 1, "--workers", "3", "--stragglers", "1", name="a")
    for end in (signal.SIGKILL, signal.SIGINT):
        if not client.is_running:
            client.start()
        said = client.log.stat().st_size
        real.wait_until(
            lambda said=said: "accepted" in client.log.read_text()[said:],  # type: ignore[misc]
            "an update is accepted",
        )
        assert client.process is not None
        pid = client.process.pid
        # What was accepted may be an update that was sent before the kill.
        real.wait_until(
            lambda pid=pid: len(children(pid)) == 3,  # type: ignore[misc]
            "there are three workers",
        )
        workers = children(pid)
        client.process.send_signal(end)
        client.process.wait()
        real.wait_until(
            lambda workers=workers: not any(map(lives, workers)),  # type: ignore[misc]
            "the workers have ended",
        )


def lives(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("options", "app", "sentence"),
    [
        (
            ["--workers", "0"],
            f"{APP}:workload",
            "--workers: 0 workers: expected 1 or more",
        ),
        (
            ["--workers", "3", "--stragglers", "3"],
            f"{APP}:workload",
            "--workers: 3 stragglers among 3 workers: expected 0 to 2",
        ),
        (
            ["--stragglers", "1"],
            f"{APP}:workload",
            "--stragglers 1: it needs --workers",
        ),
        (
            ["--workers", "2"],
            f"{APP.parent / 'batch_norm_app.py'}:average",
            "--workers: the model has batch statistics",
        ),
    ],
)
def test_what_a_silo_cannot_do_is_refused_in_one_sentence(
    options: list[str], app: str, sentence: str, federation: Make
) -> None:
    real = federation("fed")
    done = real.command(
        *("fedclient", "join", "127.0.0.1:1", "--app", app),
        *("--state", str(real.folder / "state"), *options),
    )
    assert done.returncode == os.EX_CONFIG
    (line,) = [each for each in done.stderr.splitlines() if "error" in each]
    assert re.match(f"error: {re.escape(sentence)}", line)
    assert "Traceback" not in done.stderr
