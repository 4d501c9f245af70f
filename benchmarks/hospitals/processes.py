"""The drill with real processes: a server, eight sites, and a VPN for each of them."""

import math
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.hospitals.outcome import outcome
from benchmarks.hospitals.schedule import (
    HORIZON,
    SITES,
    Event,
    Minutes,
    schedule,
    task_minutes,
)
from benchmarks.hospitals.ways import APP, algorithm
from fedcore.typing import JSON, Seconds
from fedview.results import Results
from tools.agenda import Agenda
from tools.books import audit
from tools.counting_proxy import CountingProxy
from tools.local import LocalFederation, free_port

LOOK: Seconds = 0.02
COMES_TO_AN_END: Seconds = 120.0
_ENDS = ("closed", "stopped")  # a server may be killed before it says the first one
# A site that is silent is not given up: it may come back at any time.
TIMEOUTS = {"heartbeat": 1.0, "lost": 3600.0, "linger": 60.0}


class Drill:
    """Plays a schedule to a federation that runs."""

    def __init__(
        self,
        real: LocalFederation,
        vpns: list[CountingProxy],
        events: list[Event],
        minute: Seconds,
        seed: int,
    ) -> None:
        self._real, self._vpns, self._minute, self._seed = real, vpns, minute, seed
        self._coming = Agenda()
        self._down = [0] * len(vpns)  # how many reasons there are, for each VPN
        self._is_over = False
        self._end: dict[str, Any] = {}  # of the config, as it is from a restart on
        self.diary: list[str] = []
        for event in events:
            self._coming.add(event.at, self._beginning(event))
        self._began = time.monotonic()

    def begin(self, horizon: Minutes) -> None:
        """All sites join; the schedule counts from the moment at which all are there.

        The server is told when the run ends when it is started again, as a run's clock
        counts from the first site that comes.
        """
        for site in range(SITES):
            self.join(site)
        self._wait_for("enrolled")
        first = time.monotonic()
        self._wait_for("leased")  # which means that all are there
        self._began = time.monotonic()
        seconds = horizon * self._minute + self._began - first
        self._end = {"stop": {"seconds": seconds}}

    def _wait_for(self, what: str) -> None:
        self._real.wait_until(
            lambda: any(e["event"] == what for e in self._real.events()), what
        )

    def look(self) -> None:
        """Carries out the acts of the schedule whose time has come."""
        self._coming.do((time.monotonic() - self._began) / self._minute)

    def clear_up(self) -> None:
        """What has begun ends now, and nothing else begins."""
        self._is_over = True
        self._coming.do(math.inf)

    def join(self, site: int) -> None:
        """A site starts, the first time or again."""
        name, pace = f"hospital-{site}", task_minutes()[site] * self._minute
        words = ["--pace", f"{pace:.3f}", "--data", f"seed={self._seed}"]
        host = self._vpns[site].address
        self._real.client(site, SITES, *words, name=name, host=host)

    def _beginning(self, event: Event) -> Callable[[], None]:
        """What to do when an event begins."""

        def begin() -> None:
            if self._is_over:
                return
            self.diary.append(f"{event.at:6.1f} min  {event}")
            match event.kind:
                case "drop" | "outage":
                    self._drop(event)
                case "disconnect":
                    for vpn in self._vpns:
                        vpn.cut()
                case "crash":
                    assert event.site is not None
                    site = event.site
                    self._real.children[f"hospital-{site}"].kill()
                    self._coming.add(event.end, lambda: self.join(site))
                case "kill":
                    self._real.children["server"].kill()
                    self._coming.add(event.end, self._serve_again)

        return begin

    def _drop(self, event: Event) -> None:
        sites = range(SITES) if event.site is None else [event.site]
        for site in sites:
            self._down[site] += 1
            self._vpns[site].block()
        self._coming.add(event.end, lambda: self._restore(sites))

    def _restore(self, sites: range | list[int]) -> None:
        for site in sites:
            self._down[site] -= 1
            if not self._down[site]:
                self._vpns[site].restore()

    def _serve_again(self) -> None:
        given = self._real.config
        algorithm = {**given["algorithm"], "min_clients": 1}
        self._real.rewrite({**given, **self._end, "algorithm": algorithm})
        self._real.server("--no-evaluator", "--amend", wait=False)


def play(
    way: str,
    seed: int,
    folder: Path,
    minute: Seconds = 1.0,
    horizon: Minutes = HORIZON,
    say: Callable[[str], None] = lambda line: None,
) -> JSON:
    """Runs the drill under one way of making versions, and makes up the books.

    Args:
        way: one of ``WAYS``.
        seed: of the schedule, the data and the run.
        folder: gets the run and the logs; what was there before is removed.
        minute: how many seconds a minute of the schedule takes.
        horizon: how long the run lasts.
        say: is given the lines of the diary.
    """
    shutil.rmtree(folder, ignore_errors=True)
    events, port = schedule(seed, horizon), free_port()
    settings = {
        "app": f"{APP}:workload",
        "model": "model.safetensors",
        "seed": seed,
        "server": {"listen": f"127.0.0.1:{port}", "journal": "run"},
        "algorithm": {**algorithm(way), "min_clients": SITES},
        "timeouts": TIMEOUTS,
    }
    real = LocalFederation(folder, settings, app=f"{APP}:workload")
    with ExitStack() as stack:
        stack.enter_context(real)
        vpns = [
            stack.enter_context(CountingProxy(f"127.0.0.1:{port}"))
            for _ in range(SITES)
        ]
        server = real.server("--no-evaluator")
        drill = Drill(real, vpns, events, minute, seed)
        drill.begin(horizon)
        longest = time.monotonic() + horizon * minute + COMES_TO_AN_END
        said = 0
        while not any(event["event"] in _ENDS for event in real.events()):
            drill.look()
            for line in drill.diary[said:]:
                say(line)
            said = len(drill.diary)
            if time.monotonic() > longest:
                raise RuntimeError(f"the drill does not end:\n{server.tail()}")
            real.check()
            time.sleep(LOOK)
        drill.clear_up()
        for child in real.children.values():
            if child.wait(COMES_TO_AN_END):
                raise RuntimeError(f"{child.name} failed:\n{child.tail()}")
    states = [folder / f"state-hospital-{site}" for site in range(SITES)]
    books = audit(real.run, states)
    return {
        "seed": seed,
        "minute": minute,
        "horizon": horizon,
        **outcome(Results(real.run), events, minute),
        "books": asdict(books) | {"balance": books.balance},
        "events": len(drill.diary),
    }
