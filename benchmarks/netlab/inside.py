"""One federation on the hosts of the tool, from its first task to its accounts.

``python -m benchmarks.netlab.inside PLAN`` reads a plan, and writes the result beside
the plan. The tool starts it.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.netlab import tool
from benchmarks.netlab.links import (
    CLIENTS,
    HOSTS,
    MOVER,
    Event,
    host_of,
    schedule,
)
from benchmarks.netlab.ways import APP, PACE, TARGET, config
from fedcore.coordinator.events import Decided, Leased
from fedcore.protocol import Verdict
from fedcore.typing import JSON, Seconds
from fedview.results import Results
from tools.agenda import Agenda
from tools.books import audit
from tools.local import LocalFederation

PORT = 8443
COMES_TO_AN_END: Seconds = 420.0  # after the run has ended, on the slowest link
LOOK: Seconds = 0.2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be run."""

    way: str
    seed: int
    seconds: Seconds
    """The longest time."""
    to_target: bool = True
    """It ends with the target; otherwise it lasts for all the time."""

    def stop(self) -> JSON:
        """When the run ends."""
        target = {"target": {"accuracy": TARGET}} if self.to_target else {}
        return {"seconds": self.seconds, **target}


class Weather:
    """Lets happen what the schedule says."""

    def __init__(self, real: LocalFederation, plan: Plan) -> None:
        self._real, self._seed = real, plan.seed
        self._coming = Agenda()
        for event in schedule(plan.seed, plan.seconds):
            self._coming.add(event.at, partial(self._happen, event))
        self.happened = list[Event]()
        self.moves = 0

    def look(self, now: Seconds) -> None:
        """Does what is due, in seconds since the first task."""
        self._coming.do(now)

    def clear_up(self) -> None:
        """All links work from now on."""
        self._coming = Agenda()
        for client in range(CLIENTS):
            self._switch(client, is_up=True)

    def join(self, client: int) -> None:
        """A client starts, the first time or again."""
        words = ["--pace", str(PACE), "--plaintext", "--data", f"seed={self._seed}"]
        self._real.client(client, CLIENTS, *words)

    def where(self, name: str) -> list[str]:
        """The words before a process's command."""
        if name == "server":
            return tool.on("h0")
        return tool.on(host_of(int(name.rpartition("-")[2]), self.moves))

    def _happen(self, event: Event) -> None:
        self.happened.append(event)
        if event.kind == "move":
            self._move()
        else:
            self._switch(event.client, is_up=event.kind == "back")

    def _move(self) -> None:
        self._real.children[f"client-{MOVER}"].kill()
        self.moves += 1
        self.join(MOVER)

    def _switch(self, client: int, *, is_up: bool) -> None:
        for host in dict.fromkeys(host_of(client, moves) for moves in (0, 1)):
            tool.switch(host, is_up=is_up)


def play(plan: Plan, folder: Path) -> JSON:
    """Runs a federation to its end, and makes up the books."""
    settings = config(
        plan.way,
        plan.seed,
        f"{tool.address('h0')}:{PORT}",
        plan.stop(),
        every=1 if plan.to_target else 20,
    )
    real = LocalFederation(folder, settings, app=f"{APP}:workload")
    weather = Weather(real, plan)
    real.within = weather.where
    clients = [f"h{number}" for number in range(1, HOSTS)]
    with real:
        server = real.server()
        for client in range(CLIENTS):
            weather.join(client)
        real.wait_until(lambda: bool(_tasks(real)), "all join", COMES_TO_AN_END)
        began, before = time.monotonic(), tool.carried(clients)
        while server.is_running and not _happened(real, "closed"):
            weather.look(time.monotonic() - began)
            real.check()
            time.sleep(LOOK)
        bytes_ = tool.carried(clients) - before
        weather.clear_up()
        for child in real.children.values():
            if child.wait(COMES_TO_AN_END):
                raise RuntimeError(f"{child.name} failed:\n{child.tail()}")
    return told(plan, real, bytes_, weather)


def told(
    plan: Plan, real: LocalFederation, bytes_: dict[str, int], weather: Weather
) -> JSON:
    """What came of a run."""
    states = [real.folder / f"state-client-{client}" for client in range(CLIENTS)]
    books, results = audit(real.run, states), Results(real.run)
    began = min(r.at for r in results.of(Leased) if r.cid not in results.evaluators)
    central = results.central
    offset = began - results.started
    curve = [
        (round(seconds - offset, 2), round(value, 4))
        for seconds, value in zip(central["seconds"], central["accuracy"], strict=True)
    ]
    reached = next((seconds for seconds, value in curve if value >= TARGET), None)
    decided = results.of(Decided)
    count = {v.value: sum(r.verdict is v for r in decided) for v in Verdict}
    kinds = [event.kind for event in weather.happened]
    return {
        "seed": plan.seed,
        "seconds": reached,
        "limit": plan.seconds,
        "accuracy": curve[-1][1],
        "versions": books.versions,
        "verdicts": {name: number for name, number in count.items() if number},
        "bytes": bytes_,
        "cuts": kinds.count("cut"),
        "moves": kinds.count("move"),
        "books": asdict(books) | {"balance": books.balance},
        "shares": {
            str(name): round(share, 4)
            for name, share in zip(
                results.shares["client"], results.shares["share"], strict=True
            )
        },
        "curve": curve,
    }


def _happened(real: LocalFederation, what: str) -> list[dict[str, Any]]:
    return [event for event in real.events() if event["event"] == what]


def _tasks(real: LocalFederation) -> list[dict[str, Any]]:
    names = {f"client-{client}" for client in range(CLIENTS)}
    return [e for e in _happened(real, "leased") if e.get("client") in names]


def main() -> int:
    """Plays the plan of a file."""
    path = Path(sys.argv[1])
    plan = Plan(**json.loads(path.read_text("utf-8")))
    found = play(plan, path.parent / "federation")
    path.with_suffix(".out").write_text(json.dumps(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
