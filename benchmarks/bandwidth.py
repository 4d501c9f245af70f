"""``python -m benchmarks.bandwidth``: the worth of shorter messages on slow links.

The digits and the network that ``fedsim new`` writes, 20 clients, the default recipe,
in simulated time. First links so slow that an upload takes about as long as training:
the time to an accuracy, with and without ``upload_time``. Then two days with a budget
of bytes: the bytes of a client on its most expensive day, and the accuracy.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import latecomer
from fedcore.controllers.bandwidth import DAY
from fedrun.app import load_app
from fedview.results import Results

APP = Path(__file__).parents[1] / "fedsim" / "templates" / "numpy"
GOALS = (0.90, 0.93)
LINKS = {  # Mbit/s of the median link, and how widely links are spread
    "slow, alike": (0.001, 0.5),
    "slow, spread widely": (0.001, 2.0),
    "very slow": (0.0003, 1.0),
}
LIMITS: Mapping[str, Mapping[str, float] | None] = {
    "off": None,
    "1 s, least .1": {"upload_time": 1.0, "least": 0.1},
    "1 s, least .3": {"upload_time": 1.0, "least": 0.3},
}
BUDGET = 4_000
BUDGETS: Mapping[str, Mapping[str, float] | None] = {
    "off": None,
    "shorter messages": {"daily": BUDGET},
    "rest alone": {"daily": BUDGET, "least": 1.0},
}


class Outcome(NamedTuple):
    """What came of one simulation."""

    times: tuple[float, ...]  # seconds to the goals; infinite if never reached
    accuracy: float  # the mean of the last three
    updates: int
    dearest: int  # bytes of one client on one day, both directions, at most


def simulate(
    seed: int,
    limits: Mapping[str, float] | None,
    seconds: float,
    simulated: Mapping[str, Any],
) -> Outcome:
    """One federation for so many simulated seconds."""
    config = {
        "app": "my_app:workload",
        "seed": seed,
        "server": {"listen": "127.0.0.1:0"},
        "algorithm": {
            "kind": "latecomer",
            "client": {"kind": "local_sgd", "lr": 0.1, "steps": 20, "batch": 16},
            "controllers": [{"kind": "bandwidth", **limits}] if limits else [],
        },
        "evaluate": {"every_versions": 4},
        "stop": {"seconds": seconds},
        "simulate": {"clients": 20, **simulated},
    }
    with tempfile.TemporaryDirectory() as folder:
        results = latecomer.run(
            config, load_app("my_app:workload", APP), folder=Path(folder) / "run"
        )
        accuracy = np.array(results.metrics["accuracy"])
        at = np.array(results.metrics["seconds"])
        updates, dearest = len(results.updates["bytes"]), max(_by_day(results).values())
    times = tuple(
        float(at[accuracy >= goal][0]) if (accuracy >= goal).any() else float("inf")
        for goal in GOALS
    )
    return Outcome(times, float(accuracy[-3:].mean()), updates, dearest)


def _by_day(results: Results) -> Counter[tuple[str, int]]:
    """Bytes of each client that trains; the evaluator has no budget."""
    trains = set(results.updates["client"])
    used: Counter[tuple[str, int]] = Counter()
    for table in (results.updates, results.tasks):
        for client, at, nbytes in zip(
            table["client"], table["seconds"], table["bytes"], strict=True
        ):
            if client in trains:
                used[client, int(at // DAY)] += nbytes
    return used


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints both tables."""
    parser = argparse.ArgumentParser("benchmarks.bandwidth", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args(arguments).seeds)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    slow = _table("Slow links, medians of the seeds", "link", "limits")
    for link, (mbit, sigma) in LINKS.items():
        spread = {"kind": "log_normal", "sigma": sigma}
        simulated = {
            "step_seconds": 0.05,
            "speed": {"kind": "log_normal", "sigma": 0.5},
            "link": {"up_mbit": mbit, "spread": spread},
        }
        for name, limits in LIMITS.items():
            runs = [simulate(seed, limits, 240.0, simulated) for seed in seeds]
            slow.add_row(link, name, *_cells(runs))
    console.print(slow)
    days = _table(f"Two days of {BUDGET:,} bytes for a client", "budget")
    for name, limits in BUDGETS.items():
        runs = [simulate(s, limits, 2 * DAY, {"step_seconds": 60.0}) for s in seeds]
        days.add_row(name, *_cells(runs))
    console.print(days)
    return 0


def _table(title: str, *first: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in first:
        table.add_column(column)
    for column in (*(f"s to {g}" for g in GOALS), "accuracy", "updates", "dearest day"):
        table.add_column(column, justify="right")
    return table


def _cells(runs: Sequence[Outcome]) -> list[str]:
    """Medians over the seeds; of the dearest day the largest."""
    times = [
        f"{np.median(column):,.0f}"
        for column in zip(*(r.times for r in runs), strict=True)
    ]
    accuracy = f"{np.median([r.accuracy for r in runs]):.4f}"
    updates = f"{np.median([r.updates for r in runs]):,.0f}"
    return [*times, accuracy, updates, f"{max(r.dearest for r in runs):,} B"]


if __name__ == "__main__":
    sys.exit(main())
