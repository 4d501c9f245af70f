"""I-Prof with real processes: it learns from their clocks, and a restart forgets none.

How long a task takes is nobody's promise on a shared machine. So the test looks at the
order of the two clients alone, whose devices differ by a factor of six.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedcore.coordinator.events import Decided, Enrolled
from fedrun.journal import Journal
from fedrun.journal.recover import recover
from fedrun.journal.replay import Replay
from fedview.results import Results
from tests.integration import throttled_app
from tools.local import LocalFederation, free_port

APP = f"{Path(throttled_app.__file__)}:workload"
SLOWNESS = {"fast": 1, "slow": 6}  # milliseconds a sample
USUAL = 5  # steps
RESTART, END = 10, 20  # updates

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def test_the_slower_client_gets_fewer_steps_also_after_a_restart(
    federation: Callable[..., LocalFederation],
) -> None:
    controller = {"kind": "i_prof", "seconds": 0.3, "each": "client"}
    real = federation(
        app=APP,
        algorithm={
            "kind": "fed_async",
            "client": {"kind": "local_sgd", "steps": USUAL, "batch": 4},
            "min_clients": 2,
            "controllers": [controller],
        },
        stop={"updates": END},
        server={"listen": f"127.0.0.1:{free_port()}", "journal": "run"},
    )
    real.app = APP
    server = real.server()
    clients = [
        real.client(index, 2, "--data", f"ms={ms}", name=name)
        for index, (name, ms) in enumerate(SLOWNESS.items())
    ]
    real.wait_until(lambda: len(decided(real)) >= RESTART, "half of the updates")
    server.kill()
    before = len(Results(real.run).of(Decided))
    real.server()
    assert real.children["server"].wait() == 0, server.tail()
    assert [client.wait() for client in clients] == [0, 0]
    steps, results = {name: list[int]() for name in SLOWNESS}, Results(real.run)
    names = {record.cid: record.name for record in results.of(Enrolled)}
    for place, record in enumerate(results.of(Decided)):
        took = record.measured
        assert took is not None
        assert took.samples
        assert took.seconds
        assert took.device is not None
        assert took.device.cores
        if place >= before + 2:  # the messages in flight were of older tasks
            steps[names[record.cid]].append(record.steps)
    assert steps["fast"], "no update of it after the restart"
    assert min(steps["fast"]) > 2 * max(steps["slow"] or [USUAL])
    follows_from_records(real)


def decided(real: LocalFederation) -> list[Decided]:
    """The decisions that are on the disk."""
    return list(Results(real.run).of(Decided))


def follows_from_records(real: LocalFederation) -> None:
    """Checks that a restart and a replay of the journal come to the same state."""
    journal = Journal.open(real.run, read_only=True)
    try:
        known = recover(journal).coordinator.state.learnt.controllers
        replay = Replay(journal)
        for _ in replay.run():
            pass
        assert replay.coordinator.state.learnt.controllers == known
        assert isinstance(known, dict)
        seen, *_ = known["i_prof"][0]
        assert seen == END
    finally:
        journal.close()
