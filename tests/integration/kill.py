"""SIGKILLs of a loaded server and of its clients, and the books afterwards.

``python -m tests.integration.kill --kills 30`` is the long form; a short one is among
the tests.
"""

import argparse
import random
import socket
import sys
import tempfile
import time
from pathlib import Path

from tests.integration.conftest import APP
from tools.books import Books, audit
from tools.local import LocalFederation

CLIENTS = 8
ENDING = 10  # versions after the last kill


def kill_again_and_again(folder: Path, kills: int, seed: int) -> Books:
    """Kills server and clients in turn under load; returns the balanced books."""
    rng = random.Random(seed)
    config = {
        "app": f"{APP}:workload",
        "server": {"listen": f"127.0.0.1:{free_port()}", "journal": "run"},
        "journal": {"snapshot_records": 150},
        "timeouts": {"linger": 60.0},
        "algorithm": {
            "kind": "latecomer",
            "buffer": 4,
            "client": {"kind": "local_sgd", "lr": 0.1, "steps": 5, "batch": 16},
            "uplink": {
                "kind": "error_feedback",
                "inner": {"kind": "top_k", "ratio": 0.05},
            },
            "downlink": {"kind": "top_k", "ratio": 0.1},
        },
    }
    with LocalFederation(folder, config, app=f"{APP}:workload") as real:
        server = real.server("--no-evaluator")
        clients = [real.client(i, CLIENTS) for i in range(CLIENTS)]
        # The server waits at the end for everybody whom it knows: for these eight.
        real.wait_until(lambda: members(real) == CLIENTS, "everybody has joined")
        real.wait_until(lambda: steps(real) > 2, "the federation is at work")
        for number in range(kills):
            time.sleep(rng.uniform(0.05, 0.4))
            server.kill()
            real.server("--no-evaluator")
            time.sleep(rng.uniform(0.02, 0.3))
            which = rng.randrange(CLIENTS)
            clients[which].kill()
            clients[which] = real.client(which, CLIENTS)
            say(f"\r{number + 1} of {kills} kills each, {steps(real)} versions")
        before = steps(real)
        real.wait_until(lambda: steps(real) > before, "it goes on")
        server.kill()
        real.server("--no-evaluator", "--set", f"stop.versions={steps(real) + ENDING}")
        for child in [server, *clients]:
            assert child.wait() == 0, f"{child.name}:\n{child.tail()}"
        say("\n")
        states = [real.folder / f"state-client-{i}" for i in range(CLIENTS)]
        return audit(real.run, states)


def steps(real: LocalFederation) -> int:
    """Published versions."""
    return sum(line.get("event") == "stepped" for line in real.events())


def members(real: LocalFederation) -> int:
    """Clients that have joined the run."""
    return len({e["cid"] for e in real.events() if e.get("event") == "admitted"})


def free_port() -> int:
    """A port that a server can come back to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(text: str) -> None:
    """Progress, where somebody looks."""
    if sys.stderr.isatty():
        print(text, end="", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        books = kill_again_and_again(Path(folder) / "fed", given.kills, given.seed)
    print(f"{given.kills} SIGKILLs of the server, {given.kills} of clients")
    for name, figure, right in books.rows():
        print(f"{'ok' if right else 'WRONG':6} {name}: {figure}")
    return 0 if books.balance else 1


if __name__ == "__main__":
    sys.exit(main())
