"""An operator at a federation of real processes: acts, a kill, and what is logged."""

import json
from typing import Any

import pytest

from tests.integration.conftest import Make
from tests.integration.kill import free_port
from tools.local import Child, LocalFederation

pytestmark = pytest.mark.processes


def status(fed: LocalFederation) -> dict[str, Any]:
    done = fed.command("fedserver", "status", fed.address, "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_pause_and_an_eviction_outlast_a_kill_of_the_server(
    federation: Make,
) -> None:
    fed = federation(
        server={"listen": f"127.0.0.1:{free_port()}", "journal": "run"},
        algorithm={"kind": "latecomer", "buffer": 2},
        timeouts={"hold": 0.5},
    )
    server = fed.server("--no-evaluator")
    # Without a stop: commands of a busy machine may take any time.
    clients = [fed.client(i, 3, "--log", "json", "--pace", "0.3") for i in range(3)]

    def decided() -> int:
        return sum(line.get("event") == "decided" for line in server.lines())

    fed.wait_until(lambda: decided() >= 6, "clients train")
    run = str(fed.run)
    done = fed.command("fedserver", "evict", run, "client-2", "--reason", "noise")
    assert done.returncode == 0, done.stderr
    assert clients[2].wait() == 77
    assert "the operator has evicted 'client-2': noise" in clients[2].tail()
    done = fed.command("fedserver", "pause", run, "--reason", "night")
    assert done.returncode == 0, done.stderr
    server.kill()
    fed.server("--no-evaluator")
    told = status(fed)
    assert (told["paused"], told["evicted"]) == ("night", {"client-2": "noise"})

    def waits(client: Child) -> bool:
        said = "waiting: the operator has paused the run: night"
        return any(line.get("message") == said for line in client.lines())

    for client in clients[:2]:
        fed.wait_until(lambda client=client: waits(client), "it says why it waits")
    before = decided()
    assert fed.command("fedserver", "resume", run).returncode == 0
    fed.wait_until(lambda: decided() >= before + 6, "clients train again")
    assert server.stop() == 0
    verified = fed.command("fedserver", "journal", "verify", run)
    assert verified.returncode == 0, verified.stderr
    shown = fed.command("fedserver", "journal", "show", run, "--json").stdout
    records = [json.loads(line) for line in shown.splitlines()]
    kinds = [record["kind"] for record in records]
    assert kinds.count("Paused") == kinds.count("Unpaused") == 1
    paused, resumed = kinds.index("Paused"), kinds.index("Unpaused")
    assert "Leased" not in kinds[paused:resumed]
    for client in clients[:2]:
        lines = [line for line in client.lines() if "run" in line]
        assert {(line["run"], line["client"]) for line in lines} == {
            (told["run"], client.name)
        }
        assert {line["event"] for line in lines} == {"log"}
        verdicts = [line for line in lines if line["message"].startswith("update ")]
        assert verdicts
        assert all(f"update {line['seq']} " in line["message"] for line in verdicts)
    lines = [line for line in fed.children["server"].lines() if "event" in line]
    assert {line["run"] for line in lines} == {told["run"]}
