"""``python -m benchmarks.asynchrony.choice``: the default rates beside others.

The recipe ``latecomer`` without codecs, at the clients' default rate of .1, with other
server rates, limits of its weights and powers of its averaging, in all settings of
``python -m benchmarks.asynchrony`` and in smaller ones. The evaluation uses held-out
training images, so that the rates are not chosen by the test images that judge them.
"""

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.asynchrony.__main__ import DATA
from benchmarks.asynchrony.contenders import CONTENDERS, OURS, OWN, Contender, Rates
from benchmarks.asynchrony.course import Setting, simulate
from benchmarks.asynchrony.problem import PROBLEMS
from benchmarks.series import join
from benchmarks.speed.measure import machine
from fedcore.errors import LatecomerError
from fedcore.typing import JSON, Seconds
from fedrun.cli.exit_codes import exit_code

RESULTS = Path(__file__).parent.parent / "results" / "choice.json"
SEEDS = (0, 7, 8)
LIMIT = 150.0  # units of time that a run may take


class Candidate(NamedTuple):
    """Rates of the default recipe that are compared."""

    rate: float
    """The server's learning rate."""
    limit: float
    """m: how many updates a model moves by at most while one is computed, over the
    rate."""
    power: float
    """p: the average is of about the last 1/(p + 1) of all versions."""

    def contender(self) -> Contender:
        """Returns the default recipe with these settings, without its codecs."""

        def section(flight: int, rate: float) -> JSON:
            weights: JSON = {"kind": "delay_adaptive", "limit": self.limit}
            server: JSON = {"kind": "schedule_free", "lr": rate, "power": self.power}
            return {
                **CONTENDERS[OURS].section(flight, rate),
                "staleness": {"kind": "label_boost", "inner": weights},
                "server": server,
            }

        return Contender(str(self), section, CONTENDERS[OURS].buffer)

    def __str__(self) -> str:
        """Returns the three numbers, by which tables name a candidate."""
        return f"{self.rate:g}, {self.limit:g}, {self.power:g}"


CANDIDATES = (
    Candidate(1, 5, 8),
    Candidate(1, 5, 4),
    Candidate(1.5, 3.3, 4),
    Candidate(2, 2.5, 4),
    Candidate(2, 2.5, 8),
    Candidate(2, 2.5, 2),
    Candidate(2, 3, 4),
    Candidate(2, 5, 4),
    Candidate(4, 1.25, 4),
)
SETTINGS = {  # the model, the speeds, and the clients in flight
    "log-normal, 1,000 in flight": ("mlp", "log_normal", 1000),
    "log-normal, 200 in flight": ("mlp", "log_normal", 200),
    "Pareto, 1,000 in flight": ("mlp", "pareto", 1000),
    "Pareto, 200 in flight": ("mlp", "pareto", 200),
    "ten people": ("watch", "log_normal", 10),
    "digits, 12 in flight": ("digits", "log_normal", 12),
}


class Task(NamedTuple):
    """A run: the title of its setting, the rates that it has, and its seed."""

    setting: str
    candidate: Candidate
    seed: int


def measured(data: str, task: Task) -> Seconds | None:
    """Returns when a run was at its target; None: it never was."""
    torch.set_num_threads(1)
    model, speed, flight = SETTINGS[task.setting]
    setting = Setting(PROBLEMS[model], data, speed, flight)
    target = max(setting.problem.targets)
    outcome = simulate(
        setting,
        task.candidate.contender(),
        Rates(OWN.client, task.candidate.rate),
        seed=task.seed,
        limit=LIMIT,
        target=target,
        tuning=True,
    )
    seconds = outcome.reaches(target)
    return round(seconds, 1) if math.isfinite(seconds) else None


def rows(told: JSON) -> Iterator[list[str]]:
    """Yields a row for each candidate: the mean time in each setting, of all seeds.

    Args:
        told: the times of each seed, by setting and candidate, as they are saved.
    """
    for candidate in map(str, CANDIDATES):
        cells = []
        for setting in SETTINGS:
            times = told[setting][candidate]
            never = times.count(None)
            mean = f"{sum(times) / len(times):.1f}" if not never else ""
            cells.append(mean or f"never in {never} of {len(times)}")
        yield [candidate, *cells]


def run(data: str, seeds: Sequence[int], processes: int) -> JSON:
    """Returns the times of all runs, by setting and candidate, in the seeds' order."""
    tasks = [Task(*each) for each in product(SETTINGS, CANDIDATES, seeds)]
    told: JSON = {name: {str(each): [] for each in CANDIDATES} for name in SETTINGS}
    with ProcessPoolExecutor(processes) as pool:
        each_of = pool.map if processes > 1 else map  # a pool starts none until asked
        times = each_of(partial(measured, data), tasks)
        for task, seconds in zip(tasks, times, strict=True):
            told[task.setting][str(task.candidate)].append(seconds)
            print(f"{task.setting}: {task.candidate}: {seconds}", flush=True)
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all candidates in all settings, and prints the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.asynchrony.choice",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", default=os.environ.get(DATA, "data"))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    try:
        told = run(options.data, options.seeds, options.processes)
    except LatecomerError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    table = Table("rate, limit, power", *SETTINGS, box=box.SIMPLE_HEAD)
    for row in rows(told):
        table.add_row(*row)
    console.print(table)
    if options.save:
        found = {"times": told, "seeds": [*options.seeds], "machine": machine()}
        join(RESULTS, {"choice": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
