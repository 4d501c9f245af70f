"""A Flower app on ``fedserver run`` and ``fedclient join``, which are killed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.flower.deployment import LIMIT, NODES, STEADY, TARGET, Steady
from benchmarks.flower.watched import Memory
from fedcore.typing import JSON, Seconds
from tools.books import audit
from tools.counting_proxy import CountingProxy
from tools.local import Child, LocalFederation, free_port

RECIPES = ("fed_avg", "latecomer")
LEAST = 2  # clients, below which nothing is trained: as the app's FedAvg has it
KINDS = {"fedserver": "fedserver", "fedclient": "evaluator"}
WATCHED: Seconds = 12.0  # after the kill of a client
MORE = 20  # versions after the kill of the server


@dataclass
class Federation:
    """A server and its clients, with a proxy between them."""

    real: LocalFederation
    proxy: CountingProxy
    clients: list[Child]
    server: Child
    memory: Memory
    began: float

    def when(self, event: str, version: int) -> float:
        """Waits until the server has told of a version or a later one; the time."""
        self.real.wait_until(
            lambda: self.newest(event) >= version, f"{event} {version}", LIMIT
        )
        self.real.check()
        return time.monotonic()

    def newest(self, event: str) -> int:
        """The newest version of which the server has told an event."""
        told = (line for line in reversed(self.real.events()))
        return next((e["version"] for e in told if e.get("event") == event), 0)

    def accuracies(self) -> list[float]:
        """Returns the accuracy of each version that was evaluated so far, in order."""
        told = (e for e in self.real.events() if e.get("event") == "evaluated")
        return [e["values"]["accuracy"] for e in told]

    def best(self) -> float:
        """Returns the best of these; 0 if there is none."""
        return max(self.accuracies(), default=0.0)


def measure(recipe: str, app: Path, folder: Path) -> JSON:
    """Returns what one recipe took, and what came of it when processes were killed."""
    with federation(
        recipe, app, folder / "target", {"target": {"accuracy": TARGET}}, NODES
    ) as it:
        it.real.wait_until(lambda: it.best() >= TARGET, f"accuracy {TARGET}", LIMIT)
        reached, spent = time.monotonic() - it.began, sum(it.proxy.sent.values())
    with federation(recipe, app, folder / "steady", {"versions": STEADY}, NODES) as it:
        first = it.when("stepped", 1)
        shown = it.when("evaluated", 1)
        last = it.when("stepped", STEADY)
        it.when("evaluated", STEADY)
        for child in (*it.clients, it.server):
            if child.wait(LIMIT):
                raise RuntimeError(f"{child.name} failed:\n{child.tail()}")
        steady = Steady(
            first_result=shown - it.began,
            updates=STEADY * NODES,
            per_second=(STEADY - 1) * NODES / (last - first),
            up=it.proxy.sent["up"],
            down=it.proxy.sent["down"],
            memory=it.memory.most,
            accuracy=it.accuracies()[-1],
            reached=reached,
            spent=spent,
        )
    with federation(recipe, app, folder / "killed", {}, LEAST) as it:
        node = killed_node(it)
        server = killed_server(it)
    return {**steady.to_json(), "node killed": node, "server killed": server}


@contextmanager
def federation(
    recipe: str, app: Path, folder: Path, stop: JSON, least: int
) -> Iterator[Federation]:
    """Starts a federation, which ends as ``stop`` says; ``least`` may train."""
    port = free_port()
    settings = {
        "app": f"flower:{app}",
        "server": {"listen": f"127.0.0.1:{port}", "journal": "run"},
        "algorithm": {"kind": recipe, "buffer": NODES, "min_clients": least},
        "evaluate": {"every_versions": 1},
        "stop": {"versions": 10**6, **stop},
    }
    real = LocalFederation(folder, settings, app=f"flower:{app}")
    began = time.monotonic()
    with real, CountingProxy(f"127.0.0.1:{port}") as proxy:
        server = real.server()
        assert server.process is not None
        with Memory(server.process.pid, KINDS) as memory:
            clients = [
                real.client(index, NODES, host=proxy.address) for index in range(NODES)
            ]
            yield Federation(real, proxy, clients, server, memory, began)


def killed_node(it: Federation) -> JSON:
    """Kills a client, looks on for a while, and starts it again."""
    it.when("stepped", STEADY)
    it.clients[-1].kill()
    last, seen, waited = time.monotonic(), it.newest("stepped"), 0.0
    before, ends = seen, last + WATCHED
    while (now := time.monotonic()) < ends:
        if (steps := it.newest("stepped")) > seen:
            waited, last, seen = max(waited, now - last), now, steps
        time.sleep(0.02)
    waited = max(waited, now - last)
    it.clients[-1].start()
    return {"waited": round(waited, 1), "versions": seen - before, "watched": WATCHED}


def killed_server(it: Federation) -> JSON:
    """Kills the server and starts it again; then the books are made up."""
    it.server.kill()
    steps = it.newest("stepped")
    killed = time.monotonic()
    it.real.server("--set", f"stop.versions={steps + MORE}")
    back = it.when("stepped", steps + 1) - killed
    for child in (*it.clients, it.server):
        if child.wait(LIMIT):
            raise RuntimeError(f"{child.name} failed:\n{child.tail()}")
    states = [it.real.folder / f"state-{child.name}" for child in it.clients]
    books = audit(it.real.run, states)
    return {
        "before": steps,
        "back": round(back, 1),
        "acknowledged": books.acknowledged,
        "lost": books.lost,
        "doubled": books.doubled,
        "balance": books.balance,
    }
