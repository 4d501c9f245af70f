"""Claim 14: the trace of one client predicts the throughput of many.

Li, Yan, Paolieri, Golubchik, "Throughput Prediction of Asynchronous SGD in TensorFlow",
ICPE 2020, arXiv 1911.04650. A real server stands behind a link of 8 Mbit/s up and 16
Mbit/s down that all connections share. One real client records its phases; from them
the throughput of 2, 4 and 8 clients is predicted, with versions of two updates and in
rounds of all clients, and compared with as many real processes. A task computes on 200
kB of weights and then rests until a random time is over (--pace), because this machine
cannot train eight models at the same time: the rest stands for the work of another
machine.

Negative controls: W times the throughput of one client, and links that are not shared.
"""

import math
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.claims import wide_app
from benchmarks.claims.report import (
    Cell,
    Check,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
)
from benchmarks.claims.shared_link import SharedLink
from fedcore.coordinator.events import Decided
from fedcore.planning.demands import Demands, demands_of
from fedcore.planning.throughput import Pace, Prediction, predict
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedrun.phase_file import read_phases
from fedview.results import Results
from tools.local import LocalFederation

UP, DOWN = 1e6, 2e6  # bytes a second
SECONDS, SHAPE = 0.7, 16  # of a task: gamma, a quarter more or less
BUFFER, WORKERS = 2, (2, 4, 8)
ALONE = 31  # tasks of the trace
UPDATES = {2: 36, 4: 60, 8: 96}
SHARE = 0.15
SYNCHRONOUS, BUFFERED = "rounds of all", "versions of 2"


class Measured(NamedTuple):
    """What a real federation of some clients came to."""

    rate: float
    """Accepted updates a second, after the first ones."""
    uplink: float
    downlink: float
    """The shares of the link that were used."""
    staleness_U: npt.NDArray[np.int64]


class Row(NamedTuple):
    """A prediction beside what was measured."""

    predicted: Prediction
    measured: Measured

    @property
    def error(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        return abs(self.predicted.updates_per_second / self.measured.rate - 1)

    @property
    def distance(self) -> float:
        """The Kolmogorov-Smirnov distance of the two distributions of staleness."""
        found_T = np.bincount(self.measured.staleness_U)
        size = max(len(found_T), len(self.predicted.staleness_T))
        first, second = (
            np.cumsum(np.pad(counts, (0, size - len(counts)))) / counts.sum()
            for counts in (found_T, self.predicted.staleness_T)
        )
        return float(np.abs(first - second).max())


def run(scale: Scale) -> Report:
    """Measures federations of real processes, and predicts them from one client."""
    workers = WORKERS[: scale.of(3, 1)]
    found = [one_seed(seed, workers, quick=scale.quick) for seed in scale.seeds]
    tables, checks = [], list[Check]()
    for name in (BUFFERED, SYNCHRONOUS):
        rows = {
            f"{w} clients": [[rows[name, w] for _, rows, _ in found]] for w in workers
        }
        tables.append(
            Table(
                f"Updates a second, {name}",
                ("measured", "predicted", "error", "W times one"),
                {
                    label: [
                        Cell([row.measured.rate for row in own]),
                        Cell([row.predicted.updates_per_second for row in own]),
                        Cell([row.error for row in own], "≤ .15"),
                        Cell(
                            [
                                row.predicted.clients * alone.rate
                                for row, (_, _, alone) in zip(own, found, strict=True)
                            ]
                        ),
                    ]
                    for label, (own,) in rows.items()
                },
            )
        )
        tables.append(
            Table(
                f"Use of the link and staleness, {name}",
                ("uplink", "predicted", "downlink", "predicted ", "KS distance"),
                {
                    label: [
                        Cell([row.measured.uplink for row in own]),
                        Cell([row.predicted.utilisation["uplink"] for row in own]),
                        Cell([row.measured.downlink for row in own]),
                        Cell([row.predicted.utilisation["downlink"] for row in own]),
                        Cell([row.distance for row in own]),
                    ]
                    for label, (own,) in rows.items()
                },
            )
        )
        worst = max(row.error for (own,) in rows.values() for row in own)
        checks.append(at_most(f"largest error, {name}", worst, SHARE))
    return Report(
        number=14,
        title="The trace of one client predicts the throughput of many",
        source="Li, Yan, Paolieri, Golubchik, ICPE 2020",
        tables=tables,
        checks=[*checks, *_controls(found, workers[-1])],
    )


def _controls(found: list[Any], most: int) -> list[Check]:
    """The saturation point, and the wrong models where the link is full."""
    ratios, naive, unshared = list[float](), list[float](), list[float]()
    for demands, rows, alone in found:
        row = rows[BUFFERED, most]
        # The W at which the line of one client meets the plateau.
        ratio = demands.saturation / (row.measured.rate / alone.rate)
        ratios.append(max(ratio, 1 / ratio))
        naive.append(abs(most * alone.rate / row.measured.rate - 1))
        free = without_sharing(demands)
        wrong = predict(free, most, Pace(BUFFER), key=Key.root(0))
        unshared.append(abs(wrong.updates_per_second / row.measured.rate - 1))
    return [
        at_most("saturation point, predicted / measured or inverse", max(ratios), 1.5),
        at_least(f"error of {most} times one client", min(naive), SHARE),
        at_least("error with links that are not shared", min(unshared), SHARE),
    ]


def without_sharing(demands: Demands) -> Demands:
    """The same tasks where every client has the whole link for itself."""
    return demands._replace(
        rates={n: min(demands.rates[n], demands.capacities[n]) for n in demands.rates},
        capacities=dict.fromkeys(demands.capacities, math.inf),
    )


def one_seed(
    seed: int, workers: tuple[int, ...], *, quick: bool
) -> tuple[Demands, dict[tuple[str, int], Row], Measured]:
    """Returns the demands of the trace, all rows, and what the client did alone."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "phases.jsonl"
        mean = SECONDS if not quick else 0.05
        alone = measured(1, BUFFERED, 14 if quick else ALONE, seed, mean, trace)
        demands, _ = demands_of(read_phases(trace), up=UP, down=DOWN)
    rows = dict[tuple[str, int], Row]()
    for name in (BUFFERED, SYNCHRONOUS):
        for w in workers:
            pace = Pace(BUFFER) if name == BUFFERED else Pace(w, is_synchronous=True)
            told = predict(demands, w, pace, key=Key.root(seed))
            updates = 8 * w if quick else UPDATES[w]
            rows[name, w] = Row(told, measured(w, name, updates, seed, mean))
    return demands, rows, alone


def measured(
    workers: int,
    name: str,
    updates: int,
    seed: int,
    mean: Seconds,
    trace: Path | None = None,
) -> Measured:
    """Runs a server and clients behind the shared link.

    Args:
        workers: how many clients.
        name: how versions are made.
        updates: after which the run ends.
        seed: of the model and of the times.
        mean: of the least times of tasks.
        trace: the file for the phases of the clients.
    """
    app = f"{Path(wide_app.__file__)}:workload"
    is_synchronous = name == SYNCHRONOUS
    size = workers if is_synchronous else BUFFER
    settings = {
        "app": app,
        "server": {"listen": "127.0.0.1:0", "journal": "run"},
        "algorithm": {
            "kind": "fed_avg" if is_synchronous else "fed_buff",
            "buffer": size,
            "min_clients": workers,
            "client": {"kind": "local_sgd", "steps": 1, "batch": 16},
        },
        "seed": seed,
        "stop": {"updates": updates},
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalFederation(Path(folder) / "fed", settings, app) as real,
    ):
        server = real.server("--no-evaluator")
        with SharedLink(real.address, UP, DOWN) as link:
            for index in range(workers):
                rng = np.random.default_rng([seed, workers, is_synchronous, index])
                times = rng.gamma(SHAPE, mean / SHAPE, 200)
                pace = Path(folder) / f"pace-{index}"
                pace.write_text("".join(f"{seconds:.4f}\n" for seconds in times))
                more = ["--phases", str(trace)] if trace else []
                real.client(
                    index, workers, "--pace", str(pace), *more, host=link.address
                )
            if server.wait(240) != 0:
                raise RuntimeError(server.tail())
            for child in real.children.values():
                child.wait()
            sent = dict(link.sent)
        decided = Results(real.run).of(Decided)
    return _measured(decided, size, workers, sent)


def _measured(
    decided: list[Decided], size: int, workers: int, sent: dict[str, int]
) -> Measured:
    """Leaves out the first tasks of each client; counts from version to version."""
    first = math.ceil(2 * workers / size) * size
    last = len(decided) // size * size
    passed = decided[last - 1].at - decided[first - 1].at
    rate = (last - first) / passed
    each = {way: nbytes / len(decided) for way, nbytes in sent.items()}
    late = np.array([record.staleness for record in decided[first:last]], np.int64)
    return Measured(rate, rate * each["up"] / UP, rate * each["down"] / DOWN, late)
