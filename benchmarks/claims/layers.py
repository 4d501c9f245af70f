"""Claim 32: overlap and the order of transmission are predicted from one trace.

Li, Yan, Paolieri, Golubchik, "Throughput Prediction of Asynchronous SGD in TensorFlow",
ICPE 2020, arXiv 1911.04650. Models go layer by layer both ways: a forward computation
begins when its layer is there, and the gradient of a layer leaves while those of
earlier layers are computed. The server sends layers as they come to it, the last one
first (``fifo``), or as the forward pass needs them (``priority``).

This is a harness, and not the product, whose clients train on whole models and send
whole updates. Its workers are processes that compute by sleeping; its server is a
thread behind a shared link of 10 Mbit/s each way. The network and the times of its
layers are drawn anew for each seed. One worker records a trace in order ``fifo``; from
it both orders are predicted for 2, 4 and 8 workers.

Negative control: the prediction of the same tasks without overlap.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.claims import layer_worker
from benchmarks.claims.layer_worker import ACKNOWLEDGED, HEAD
from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
)
from benchmarks.claims.shared_link import CHUNK, Way
from fedcore.planning.demands import demands_of
from fedcore.planning.parts import Order
from fedcore.planning.throughput import Pace, predict
from fedcore.planning.trace import Trace
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedrun.phase_file import read_phases

RATE = 1.25e6  # bytes a second, each way
LAYERS, BYTES = 5, 100_000
FORWARD: Seconds = 0.1
BACKWARD: Seconds = 0.2
SHAPE = 100  # of the time of a task: gamma, a tenth more or less
WORKERS = (1, 2, 4, 8)
UPDATES = {1: 18, 2: 24, 4: 40, 8: 60}
SHARE = 0.15
_AT_ONCE = 3  # federations
ORDERS: tuple[Order, ...] = ("fifo", "priority")


class Network(NamedTuple):
    """The layers of a model, the first one first."""

    sizes: Sequence[int]
    forward: Sequence[Seconds]
    backward: Sequence[Seconds]

    @classmethod
    def draw(cls, seed: int) -> "Network":
        """Returns layers of unlike sizes and times."""
        rng = np.random.default_rng(seed)
        bytes_L, forward_L, backward_L = rng.dirichlet(np.full(LAYERS, 3.0), 3)
        return cls(
            np.ceil(BYTES * bytes_L).astype(int).tolist(),
            (FORWARD * forward_L).tolist(),
            (BACKWARD * backward_L).tolist(),
        )


class Found(NamedTuple):
    """What one seed came to."""

    trace: Trace
    rates: dict[tuple[Order, int], float]
    """Updates a second by order and number of workers."""

    def predicted(self, order: Order, workers: int, seed: int) -> float:
        """Returns the predicted updates a second."""
        demands, _ = demands_of(self.trace, up=RATE, down=RATE, server=0.0, order=order)
        key = Key.root(seed)
        return predict(demands, workers, Pace(1), key=key).updates_per_second


def run(scale: Scale) -> Report:
    """Runs workers of each number and order, and predicts them from one."""
    workers = WORKERS[: scale.of(4, 2)]
    found = {seed: one_seed(seed, workers) for seed in scale.seeds}
    tables, checks, overlaps = [], list[Check](), list[float]()
    for order in ORDERS:
        cells, worst = dict[str, list[Cell]](), list[float]()
        for w in workers:
            measured = [one.rates[order, w] for one in found.values()]
            predicted = [one.predicted(order, w, seed) for seed, one in found.items()]
            whole = [one.predicted("whole", w, seed) for seed, one in found.items()]
            errors = _errors(predicted, measured)
            cells[f"{w} workers"] = [
                Cell(measured),
                Cell(predicted),
                Cell(errors, "≤ .15"),
                Cell(whole),
            ]
            worst += errors
            overlaps += _errors(whole, measured) if w == 2 else []
        heads = ("measured", "predicted", "error", "without overlap")
        tables.append(Table(f"Updates a second, {order}", heads, cells))
        checks.append(at_most(f"largest error, {order}", max(worst), SHARE))
    gains = [
        (
            one.rates["priority", 2] / one.rates["fifo", 2],
            one.predicted("priority", 2, seed) / one.predicted("fifo", 2, seed),
        )
        for seed, one in found.items()
    ]
    real, expected = (list(gain) for gain in zip(*gains, strict=True))
    names = ("measured", "predicted")
    row = {"2 workers": [Cell(real), Cell(expected)]}
    tables.append(Table("Priority, times as fast as fifo", names, row))
    checks.append(
        at_least("error without overlap, 2 workers", float(np.mean(overlaps)), SHARE)
    )
    return Report(
        number=32,
        title="Overlap and the order of transmission are predicted from one trace",
        source="Li, Yan, Paolieri, Golubchik, ICPE 2020",
        tables=tables,
        checks=checks,
    )


def _errors(predicted: Sequence[float], measured: Sequence[float]) -> list[float]:
    return [abs(p / m - 1) for p, m in zip(predicted, measured, strict=True)]


def one_seed(seed: int, workers: Sequence[int]) -> Found:
    """Runs a network with each number of workers in both orders, some at once."""
    network = Network.draw(seed)
    jobs = sorted(product(workers, ORDERS))
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(_AT_ONCE) as pool:
        folder = Path(name)
        rates = pool.map(lambda job: measure(network, *job, seed, folder), jobs)
        by_job = {(order, w): rate for (w, order), rate in zip(jobs, rates, strict=True)}
        return Found(read_phases(folder / "fifo-1-0.jsonl"), by_job)


def measure(
    network: Network, workers: int, order: Order, seed: int, folder: Path
) -> float:
    """Returns the updates a second of real workers, without the first of each."""
    sizes = dict(enumerate(network.sizes))
    if order == "fifo":
        sizes = dict(reversed(sizes.items()))
    name = f"{order}-{workers}"
    with Server(sizes, UPDATES[workers]) as server:
        children = list[subprocess.Popen[bytes]]()
        for index in range(workers):
            rng = np.random.default_rng([seed, workers, order == "fifo", index])
            plan = {
                "bytes": network.sizes,
                "forward": network.forward,
                "backward": network.backward,
                "pace": rng.gamma(SHAPE, 1 / SHAPE, 200).tolist(),
                "phases": str(folder / f"{name}-0.jsonl") if workers == 1 else None,
            }
            file = folder / f"{name}-{index}.json"
            file.write_text(json.dumps(plan))
            command = [sys.executable, layer_worker.__file__, str(server.port)]
            children.append(subprocess.Popen([*command, str(file)]))
        times = server.wait()
        for child in children:
            child.kill()
            child.wait()
    first = 2 * workers
    return (len(times) - 1 - first) / (times[-1] - times[first])


class Server:
    """Sends a model, takes an update, and so on, over a link of its own."""

    def __init__(self, sizes: dict[int, int], updates: int) -> None:
        """The layers are sent in the order of ``sizes``."""
        self._sizes, self._updates = sizes, updates
        self._up, self._down = Way(RATE), Way(RATE)
        self._times = list[float]()
        self._ready, self._done = threading.Event(), threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Server":
        """Begins to listen."""
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def wait(self) -> list[float]:
        """Returns when each update was there, once there are enough."""
        if not self._done.wait(60):
            raise RuntimeError(f"only {len(self._times)} updates came in a minute")
        return self._times[: self._updates]

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        # Workers are killed once the server has all that it wants.
        tasks = asyncio.all_tasks(self._loop)
        self._loop.run_until_complete(asyncio.gather(*tasks))
        self._loop.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, EOFError):
            await self._exchange(reader, writer)
        writer.close()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Gives a worker the model and takes its update, again and again."""
        while await reader.read(1):
            for layer, size in self._sizes.items():
                writer.write(HEAD.pack(layer, size))
                for start in range(0, size, CHUNK):
                    nbytes = min(CHUNK, size - start)
                    await self._down.carry(nbytes)
                    writer.write(bytes(nbytes))
            for _ in self._sizes:
                _, left = HEAD.unpack(await reader.readexactly(HEAD.size))
                while left:
                    nbytes = len(await reader.readexactly(min(CHUNK, left)))
                    await self._up.carry(nbytes)
                    left -= nbytes
                writer.write(ACKNOWLEDGED)
            self._times.append(time.monotonic())
            if len(self._times) == self._updates:
                self._done.set()
