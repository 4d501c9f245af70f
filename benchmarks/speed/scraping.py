"""The cost of being scraped once a second for a server: with it and without, in turn.

One server with an HTTP port takes small updates, and the work of each round is the
same; in every other round its metrics are read each second, as Prometheus would. The
time of one scrape is measured afterwards, while the server is idle.
"""

import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.speed.measure import Figure, Scale, in_turn
from benchmarks.speed.processes import cpu_seconds
from benchmarks.speed.report import RATIO, Report, Row
from benchmarks.speed.server import LATECOMER, Peer, Traffic, config, load, save_zeros
from fedcore.typing import Seconds
from tools.local import LocalFederation

WITHOUT, WITH = "not scraped", "scraped each second"
PLAIN, SCRAPE = "/healthz", "/metrics"
EVERY: Seconds = 1.0
SCRAPES = 50
TRAFFIC = Traffic("top-k 1 % of 10,000 values", LATECOMER, "sparse", 1500, 200)


def run(scale: Scale) -> Report:
    """Loads the server in turn, and reads its metrics in between."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        save_zeros(folder / "model.safetensors", 10_000)
        settings = config(TRAFFIC.algorithm, scale)
        settings["server"]["web"] = "127.0.0.1:0"
        federation = LocalFederation(folder, settings, app="")
        stack.enter_context(federation)
        server = federation.server("--no-evaluator")
        http = f"http://{_web(server.lines())}"
        url = f"{http}/metrics"
        model = str(folder / "model.safetensors")
        pushes = stack.enter_context(load(federation.address, model, TRAFFIC))
        pushes.ask(scale.of(TRAFFIC.before, 8))
        assert server.process is not None
        peers = {name: Peer(server.process.pid, pushes) for name in (WITHOUT, WITH)}
        updates = scale.of(TRAFFIC.updates, 8)
        plain = peers[WITHOUT].work(updates)
        scraped = _scraping(url, peers[WITH].work(updates))
        seconds = in_turn({WITHOUT: plain, WITH: scraped}, scale.rounds)
        urls = {PLAIN: f"{http}/healthz", SCRAPE: url}
        answers = scale.of(SCRAPES, 2)
        asks = {
            name: Asked(server.process.pid, each, answers)
            for name, each in urls.items()
        }
        alone = in_turn({name: ask.all for name, ask in asks.items()}, scale.rounds)
    cpu = {name: Figure(peer.cpu[1:]) for name, peer in peers.items()}
    rows = [
        Row(
            name,
            {
                "updates/s": seconds[name].rate(updates),
                "CPU ms": cpu[name].times(1e3 / updates),
                RATIO: seconds[WITHOUT].over(seconds[name]),  # of rates
            },
            WITHOUT,
        )
        for name in peers
    ]
    single = [
        Row(
            name,
            {
                "ms": took.times(1e3 / answers),
                "CPU ms": Figure(asks[name].cpu[1:]).times(1e3 / answers),
                RATIO: took.over(alone[PLAIN]),
            },
            PLAIN,
        )
        for name, took in alone.items()
    ]
    return Report(
        name="scraping",
        title="metrics: small updates, fsync on, 4 clients at once",
        groups={TRAFFIC.title: rows, "nothing else to do": single},
        remarks=(
            "ratio: updates a second beside those of the same round; seconds beside "
            "those of the smallest answer",
        ),
    )


def _web(lines: list[dict[str, str]]) -> str:
    return next(line["web"] for line in lines if line.get("event") == "listening")


@dataclass
class Asked:
    """A page that is asked for again and again."""

    pid: int
    url: str
    times: int
    cpu: list[Seconds] = field(default_factory=list)

    def all(self) -> None:
        """One round; notes the processor time of the server."""
        cpu = cpu_seconds(self.pid)
        for _ in range(self.times):
            _one(self.url)
        self.cpu.append(cpu_seconds(self.pid) - cpu)


def _one(url: str) -> Seconds:
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=10) as answer:
        answer.read()
    return time.perf_counter() - began


def _scraping(url: str, work: Callable[[], Seconds]) -> Callable[[], Seconds]:
    """The work while somebody reads the metrics once a second."""

    def scraped() -> Seconds:
        over = threading.Event()

        def scrape() -> None:
            while not over.wait(EVERY):
                _one(url)

        _one(url)
        thread = threading.Thread(target=scrape)
        thread.start()
        try:
            return work()
        finally:
            over.set()
            thread.join()

    return scraped
