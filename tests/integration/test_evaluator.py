"""The server's own evaluator: it reaches its server always, and never outlives it."""

import os
import signal
import time
from pathlib import Path

import pytest
import trustme

from tests.integration.conftest import Make
from tools.local import Child, LocalFederation


def children_of(parent: Child) -> list[int]:
    """The processes that a process has started."""
    assert parent.process is not None
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it ended just now
            continue
        if int(fields[1]) == parent.process.pid:
            found.append(int(status.parent.name))
    return found


def is_alive(process: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def told(fed: LocalFederation) -> list[tuple[str, int | None]]:
    """The events of the server with their versions."""
    return [(event["event"], event.get("version")) for event in fed.events()]


def measured(fed: LocalFederation) -> bool:
    """Whether any version was evaluated."""
    return any(event["event"] == "evaluated" for event in fed.events())


def test_it_needs_no_certificate_and_no_name_of_this_machine(
    federation: Make, tmp_path: Path
) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("federation.example")
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = {
        "certificate": str(tmp_path / "cert.pem"),
        "key": str(tmp_path / "key.pem"),
        "client_ca": str(tmp_path / "ca.pem"),
    }
    fed = federation(server={"listen": "127.0.0.1:0", "journal": "run", "tls": tls})
    server = fed.server()
    fed.wait_until(lambda: measured(fed), "version 0 is measured")
    assert server.stop() == 0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_it_ends_with_a_server_that_is_killed(federation: Make) -> None:
    fed = federation()
    server = fed.server()
    fed.wait_until(lambda: measured(fed), "version 0 is measured")
    (evaluator,) = children_of(server)
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGKILL)  # the server alone
    server.process.wait()
    fed.wait_until(lambda: not is_alive(evaluator), "the evaluator ends, too")


SLOW = """
import sys
import time
from pathlib import Path

from tests.integration.numpy_app import workload

while "evaluate" in sys.argv and not Path(__file__).with_name("go").exists():
    time.sleep(0.01)
"""
LINGER = 1.0


@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_that_ends_before_it_has_started_waits_for_it(
    federation: Make, tmp_path: Path, resumed: bool
) -> None:
    quick = SLOW.partition("\nwhile")[0]
    (tmp_path / "slow_app.py").write_text(quick if resumed else SLOW)
    app = f"{tmp_path / 'slow_app.py'}:workload"
    settings = {"kind": "fed_buff", "buffer": 1, "client": {"kind": "local_sgd"}}
    timeouts = {"linger": LINGER}
    fed = federation(
        stop={"versions": 1}, app=app, algorithm=settings, timeouts=timeouts
    )
    server = fed.server()
    if resumed:  # it enrolled in an earlier process, and is slow in this one
        fed.wait_until(lambda: measured(fed), "version 0 is evaluated")
        assert server.stop() == 0
        (tmp_path / "slow_app.py").write_text(SLOW)
        server = fed.server()
    client = fed.client(0, 1)
    fed.wait_until(lambda: ("closed", 1) in told(fed), "the run has ended")
    time.sleep(1.5 * LINGER)  # the evaluator is later than the server stays for others
    (tmp_path / "go").touch()
    assert server.wait(50) == 0
    assert client.wait() == 0
    assert told(fed).index(("closed", 1)) < told(fed).index(("evaluated", 1))
