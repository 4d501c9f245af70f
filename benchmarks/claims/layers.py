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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
    average,
)
from benchmarks.claims.shared_link import Way
from fedcore.planning.demands import demands_of
from fedcore.planning.parts import Order
from fedcore.planning.throughput import Pace, predict
from fedcore.planning.trace import Trace
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedrun.phase_file import read_phases
from fedrun.units import amount

RATE = 1.25e6  # bytes a second, each way
LAYERS, BYTES = 5, 100_000
FORWARD: Seconds = 0.1
BACKWARD: Seconds = 0.2
SHAPE = 16  # of the time of a task: gamma, a quarter more or less
WORKERS = (1, 2, 4, 8)
TASKS = 15  # after which the times of a worker come again, in another order
UPDATES = {1: 17, 2: 34, 4: 80, 8: 200}  # workers in step need long to mix
SHARE = 0.15
_CHUNK = 2 << 10  # bytes of a connection before the others have their turn
_AT_ONCE = 6  # federations; their processes sleep most of the time
ORDERS: tuple[Order, ...] = ("fifo", "priority")


class Network(NamedTuple):
    """The layers of a model, the first one first."""

    sizes: Sequence[int]
    forward: Sequence[Seconds]
    backward: Sequence[Seconds]

    @classmethod
    def draw(cls, seed: int, size: float) -> "Network":
        """Returns layers of unlike bytes and times."""
        rng = np.random.default_rng(seed)
        bytes_L, forward_L, backward_L = rng.dirichlet(np.full(LAYERS, 3.0), 3)
        return cls(
            np.ceil(size * BYTES * bytes_L).astype(int).tolist(),
            (size * FORWARD * forward_L).tolist(),
            (size * BACKWARD * backward_L).tolist(),
        )


class Found(NamedTuple):
    """The trace of one seed's network, and the rates of real workers with it."""

    trace: Trace
    """Of one worker alone, in order ``fifo``."""
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
    size = 0.2 if scale.quick else 1.0
    found = {seed: one_seed(seed, workers, size) for seed in scale.seeds}
    rows = {(order, w): _row(found, order, w) for order in ORDERS for w in workers}
    tables, checks = list[Table](), list[Check]()
    for order in ORDERS:
        own = {amount(w, "worker"): rows[order, w].cells for w in workers}
        heads = ("measured", "predicted", "error", "without overlap")
        tables.append(Table(f"Updates a second, {order}", heads, own))
        errors = [rows[order, w].error for w in workers]
        mean = max((average(cell) for cell in errors), key=lambda mean: mean.value)
        worst = max(max(cell.values) for cell in errors)
        checks.append(at_most(f"largest mean error, {order}", mean, SHARE))
        text = f"largest error of any seed, {order}"
        checks.append(at_most(text, worst, SHARE, gates=False))
    fifo, priority = rows["fifo", 2], rows["priority", 2]
    gains = {
        "measured": _quotient(priority.measured, fifo.measured),
        "predicted": _quotient(priority.predicted, fifo.predicted),
    }
    gain = {"2 workers": [*gains.values()]}
    tables.append(Table("Priority, times as fast as fifo", [*gains], gain))
    off = average(_error(priority.whole, priority.measured))
    checks.append(at_least("error without overlap, 2 workers, priority", off, SHARE))
    return Report(
        number=32,
        title="Overlap and the order of transmission are predicted from one trace",
        source="Li, Yan, Paolieri, Golubchik, ICPE 2020",
        tables=tables,
        checks=checks,
    )


class Row(NamedTuple):
    """Updates a second of one order and number of workers, over the seeds."""

    measured: Cell
    predicted: Cell
    whole: Cell
    """Predicted as if nothing overlapped."""

    @property
    def error(self) -> Cell:
        """How far the prediction is off, as a share of what was measured."""
        return _error(self.predicted, self.measured)

    @property
    def cells(self) -> Sequence[Cell]:
        """Measured, predicted, error, and predicted without overlap."""
        error = self.error._replace(expected="≤ .15")
        return [self.measured, self.predicted, error, self.whole]


def _row(found: Mapping[int, Found], order: Order, workers: int) -> Row:
    return Row(
        Cell([one.rates[order, workers] for one in found.values()]),
        Cell([one.predicted(order, workers, seed) for seed, one in found.items()]),
        Cell([one.predicted("whole", workers, seed) for seed, one in found.items()]),
    )


def _quotient(above: Cell, below: Cell) -> Cell:
    return Cell([a / b for a, b in zip(above.values, below.values, strict=True)])


def _error(predicted: Cell, measured: Cell) -> Cell:
    return Cell([abs(q - 1) for q in _quotient(predicted, measured).values])


def one_seed(seed: int, workers: Sequence[int], size: float = 1.0) -> Found:
    """Runs a network with each number of workers in both orders, some at once.

    Args:
        seed: of the network and the times.
        workers: the numbers of workers.
        size: of the network, as a share of the usual one.
    """
    network = Network.draw(seed, size)
    jobs = sorted(product(workers, ORDERS), reverse=True)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(_AT_ONCE) as pool:
        folder = Path(name)
        rates = pool.map(
            lambda job: measure(network, job[0], job[1], seed, folder), jobs
        )
        by_job = {
            (order, w): rate for (w, order), rate in zip(jobs, rates, strict=True)
        }
        return Found(read_phases(folder / "fifo-1-0.jsonl"), by_job)


@cache
def factors() -> npt.NDArray[np.float64]:
    """Returns the quantiles of the gamma distribution, so that few tasks say much."""
    drawn = np.random.default_rng(0).gamma(SHAPE, 1 / SHAPE, 100_000)
    return np.quantile(drawn, (np.arange(TASKS) + 0.5) / TASKS)


def measure(
    network: Network, workers: int, order: Order, seed: int, folder: Path
) -> float:
    """Returns the updates a second of real workers, once each has sent two."""
    sizes = dict(enumerate(network.sizes))
    if order == "fifo":
        sizes = dict(reversed(sizes.items()))
    name = f"{order}-{workers}"
    with Server(sizes, UPDATES[workers]) as server:
        children = list[subprocess.Popen[bytes]]()
        for index in range(workers):
            rng = np.random.default_rng([seed, workers, order == "fifo", index])
            pace_XT = rng.permuted(np.tile(factors(), (8, 1)), axis=1)
            plan = {
                "bytes": network.sizes,
                "forward": network.forward,
                "backward": network.backward,
                "delay": rng.uniform(0, FORWARD + BACKWARD),
                "pace": pace_XT.ravel().tolist(),
                "phases": str(folder / f"{name}-0.jsonl") if workers == 1 else None,
            }
            file = folder / f"{name}-{index}.json"
            file.write_text(json.dumps(plan))
            command = [sys.executable, layer_worker.__file__, str(server.port)]
            children.append(subprocess.Popen([*command, str(file)]))
        try:
            updates = server.wait()
        finally:
            for child in children:
                child.kill()
                child.wait()
    times = [[at for at, other in updates if other == own] for own in range(workers)]
    if min(map(len, times)) < 2:
        raise RuntimeError("a worker has hardly sent anything")
    began = max(second for _, second, *_ in times)
    counted = [at for at, _ in updates if at > began]
    return len(counted) / (counted[-1] - began)


class Server:
    """Sends a model, takes an update, and so on, over a link of its own."""

    def __init__(self, sizes: dict[int, int], updates: int) -> None:
        """The layers are sent in the order of ``sizes``."""
        self._sizes, self._updates = sizes, updates
        self._up, self._down = Way(RATE), Way(RATE)
        self._workers, self._taken = 0, list[tuple[float, int]]()
        self._ready, self._done = threading.Event(), threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Server":
        """Starts the thread, and returns once its port is known."""
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the thread; connections that are still open are closed."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def wait(self) -> list[tuple[float, int]]:
        """Returns when each update was there, and whose it is, once there are all."""
        if not self._done.wait(60):
            raise RuntimeError(f"only {len(self._taken)} updates came in a minute")
        return self._taken[: self._updates]

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
        worker, self._workers = self._workers, self._workers + 1
        while await reader.read(1):
            for layer, size in self._sizes.items():
                writer.write(HEAD.pack(layer, size))
                for start in range(0, size, _CHUNK):
                    nbytes = min(_CHUNK, size - start)
                    await self._down.carry(nbytes)
                    writer.write(bytes(nbytes))
                    await writer.drain()
            for _ in self._sizes:
                _, left = HEAD.unpack(await reader.readexactly(HEAD.size))
                while left:
                    nbytes = len(await reader.readexactly(min(_CHUNK, left)))
                    await self._up.carry(nbytes)
                    left -= nbytes
                writer.write(ACKNOWLEDGED)
            self._taken.append((time.monotonic(), worker))
            if len(self._taken) == self._updates:
                self._done.set()
