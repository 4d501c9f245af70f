"""Oort with real processes: what the server has learnt outlives it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedcore.coordinator.events import Decided
from fedcore.selection.oort import OortState
from fedrun.journal import Journal
from fedrun.journal.recover import recover
from fedrun.journal.replay import Replay
from fedview.results import Results
from tests.integration import throttled_app
from tools.local import LocalFederation, free_port

APP = f"{Path(throttled_app.__file__)}:workload"
CLIENTS, RESTART, END = 4, 6, 16  # clients, updates, updates

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def test_a_restarted_server_knows_what_it_had_learnt(
    federation: Callable[..., LocalFederation],
) -> None:
    real = federation(
        app=APP,
        algorithm={
            "kind": "oort",
            "buffer": 2,
            "client": {"kind": "local_sgd", "steps": 5, "batch": 4},
            "min_clients": CLIENTS,
        },
        stop={"updates": END},
        server={"listen": f"127.0.0.1:{free_port()}", "journal": "run"},
    )
    real.app = APP
    server = real.server()
    clients = [
        real.client(index, CLIENTS, "--data", f"ms={1 + 3 * (index == 3)}")
        for index in range(CLIENTS)
    ]
    real.wait_until(
        lambda: len(list(Results(real.run).of(Decided))) >= RESTART, "some updates"
    )
    server.kill()
    real.server()
    assert real.children["server"].wait() == 0, server.tail()
    assert [client.wait() for client in clients] == [0] * CLIENTS
    journal = Journal.open(real.run, read_only=True)
    try:
        known = recover(journal).coordinator.state.learnt.selection
        replay = Replay(journal)
        for _ in replay.run():
            pass
        assert replay.coordinator.state.learnt.selection == known
    finally:
        journal.close()
    state = OortState(*known)
    assert set(state.clients) <= {r.cid for r in Results(real.run).of(Decided)}
    assert len(state.clients) >= 3  # some of which were unknown at first
    assert min(seconds for _, seconds, _ in state.clients.values()) > 0
    assert state.round >= END // 3
