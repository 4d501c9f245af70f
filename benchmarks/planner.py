"""``python -m benchmarks.planner``: do plans take as long as ``fedsim plan`` predicts?

The easy job of claim 12, but each worker has a part of the digits: dealt out at random,
as two shards of sorted digits, or by Dirichlet .3. A worker that is away takes its part
along, and other numbers of workers have other parts. The ratios are of the simulated
mean time of a plan over its predicted time, and have 95 % intervals over the seeds.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.claims.__main__ import FRESH
from benchmarks.claims.volatile_workers import EASY, JOBS, PREEMPTIBLE, planned
from benchmarks.series import add
from benchmarks.speed.measure import machine
from fedcore.typing import JSON
from fedstudies.plan.outcome import CHOICE, HALF, ON_DEMAND
from fedstudies.statistics import estimate

RESULTS = Path(__file__).parent / "results" / "planner.json"
APPS = {
    "at random": "at_random",
    "Dirichlet .3": "by_dirichlet",
    "two shards": "two_shards",
}
COLUMNS = ("plan", "seconds", "predicted_seconds")
PLANS = (CHOICE, ON_DEMAND, HALF)
CHECKS, PROCESSES = 4, 2
JOB = JOBS[EASY]


def ratios(name: str, checks: int, seed: int) -> dict[str, float]:
    """Returns simulated over predicted times of a plan and its baselines."""
    app = f"benchmarks.unlike_app:{APPS[name]}"
    table = planned(seed, JOB, checks, PREEMPTIBLE, app).checks
    rows = zip(*(table[name] for name in COLUMNS), strict=True)
    return {plan: took / told for plan, took, told in rows if plan in PLANS and took}


def main(arguments: Sequence[str] | None = None) -> None:
    """Plans with each seed, prints the ratios, and saves them if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner")
    parser.add_argument("--seeds", type=int, default=5, help="so many, from 200 on")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    seeds = range(FRESH, FRESH + options.seeds)
    study: JSON = {}
    for name in APPS:
        with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
            found = list(pool.map(partial(ratios, name, CHECKS), seeds))
        study[name] = rows = {}
        for plan in PLANS:
            values = [each[plan] for each in found if plan in each]
            own = estimate(values)
            rows[plan] = {**own.as_json(), "values": values}
            half = "" if own.half is None else f" ± {own.half:.2f}"
            print(f"{name}, {plan}: {own.mean:.2f}{half}, {own.size} seeds", flush=True)
    if options.save:
        run = {"ratios": study, "seeds": list(seeds), "machine": machine()}
        add(RESULTS, run)


if __name__ == "__main__":
    main()
