"""An operator at a federation of real processes: acts, a kill, and what is logged."""

from contextlib import closing
from typing import Any

import pytest
from fedwire.v1 import federation_pb2 as pb

from fedrun.journal import Journal, verify
from fedserver.operator.remote import ask_status, operate
from tests.integration.conftest import Make
from tools.local import Child, LocalFederation, free_port

pytestmark = pytest.mark.processes


def act(fed: LocalFederation, what: Any, **more: str) -> None:
    """Does what the command does."""
    operate(str(fed.run), pb.OperateRequest(act=what, **more))


def test_a_pause_and_an_eviction_outlast_a_kill_of_the_server(
    federation: Make,
) -> None:
    fed = federation(
        server={"listen": f"127.0.0.1:{free_port()}", "journal": "run"},
        algorithm={"kind": "latecomer", "buffer": 2},
        timeouts={"hold": 0.5},
    )
    server = fed.server("--no-evaluator")
    clients = [fed.client(i, 3, "--log", "json", "--pace", "0.3") for i in range(3)]

    def decided() -> int:
        return sum(line.get("event") == "decided" for line in server.lines())

    fed.wait_until(lambda: decided() >= 6, "clients train")
    act(fed, pb.ACT_EVICT, name="client-2", reason="noise")
    assert clients[2].wait() == 77
    assert "the operator has evicted 'client-2': noise" in clients[2].tail()
    act(fed, pb.ACT_PAUSE, reason="night")
    server.kill()
    fed.server("--no-evaluator")
    told = ask_status(fed.address)
    assert (told["paused"], told["evicted"]) == ("night", {"client-2": "noise"})

    def waits(client: Child) -> bool:
        said = "waiting: the operator has paused the run: night"
        return any(line.get("message") == said for line in client.lines())

    fed.wait_until(lambda: all(map(waits, clients[:2])), "both say why they wait")
    before = decided()
    act(fed, pb.ACT_RESUME)
    fed.wait_until(lambda: decided() >= before + 6, "clients train again")
    assert server.stop() == 0
    with closing(Journal.open(fed.run, read_only=True)) as journal:
        verify(journal)
        records = [entry.record for entry in journal.entries()]
    kinds = [type(record).__name__ for record in records]
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
