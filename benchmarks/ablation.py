"""``python -m benchmarks.ablation``: the worth of each part of the default recipe.

The recipe ``latecomer`` without one of its parts, or with one that it does not have, in
the setting of ``python -m benchmarks.asynchrony`` with log-normal speeds and 200 of
2,000 clients in flight: virtual time and bytes of payload, up and down, until the
accuracy is known to be .80. All use the default rates, which suit the whole recipe.

Then all combinations of the parts on the digits with 12 of 60 clients in flight: the
time and the bytes of a run with a part, as a multiple of those without it, all else
equal.
"""

import argparse
import itertools
import json
import math
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.asynchrony.__main__ import DATA
from benchmarks.asynchrony.contenders import LIMIT, OWN, Contender, Section
from benchmarks.asynchrony.course import Outcome, Setting, simulate
from benchmarks.asynchrony.problem import PROBLEMS
from benchmarks.series import join
from benchmarks.speed.measure import machine
from fedcore.errors import LatecomerError
from fedcore.typing import JSON, Seconds
from fedrun.cli.exit_codes import exit_code
from fedstudies.statistics import Estimate, estimate

RESULTS = Path(__file__).parent / "results" / "ablation.json"
_PLAIN: JSON = {"kind": "identity"}
PARTS: dict[str, tuple[JSON, JSON]] = {  # what the recipe says without it, and with it
    "staleness weights": ({"staleness": {"kind": "constant"}}, {}),
    "averaging": ({"server": {"kind": "sgd", "lr": 2.0}}, {}),
    "double compression": ({"uplink": _PLAIN, "downlink": _PLAIN}, {}),
    "calibration": ({}, {"aggregator": {"kind": "ca2fl"}}),
    "I-Prof": ({}, {"controllers": [{"kind": "i_prof", "seconds": 1.0}]}),
    "AdaComm": ({}, {"controllers": [{"kind": "ada_comm", "period": 10.0}]}),
}
DEFAULT = frozenset(["staleness weights", "averaging", "double compression"])


COLUMNS = {
    "one by one": ("recipe", "time to .80", "GB", "never"),
    "all": ("part", "times as long", "times as many bytes", "pairs left out"),
}


class Scene(NamedTuple):
    """A problem, and how long a run may take."""

    problem: str
    flight: int
    target: float
    limit: Seconds  # in units of a median device's task


ONE_BY_ONE = Scene("mlp", 200, 0.80, 150.0)
ALL = Scene("digits", 12, 0.90, 150.0)


def section(parts: Collection[str]) -> Section:
    """The section ``algorithm`` of the default recipe with these parts."""
    said: JSON = {"kind": "latecomer", "staleness_limit": LIMIT, "controllers": []}
    for name, (without, with_it) in PARTS.items():
        part = with_it if name in parts else without
        said["controllers"] = said["controllers"] + part.get("controllers", [])
        said |= {key: value for key, value in part.items() if key != "controllers"}
    return lambda flight, _: {**said, "concurrency": flight}


def name_of(parts: Collection[str]) -> str:
    """How a recipe differs from the default one."""
    changes = [
        f"{'without' if name in DEFAULT else 'with'} {name}"
        for name in PARTS
        if (name in DEFAULT) != (name in parts)
    ]
    return ", ".join(changes) or "the default recipe"


def one_by_one() -> Iterator[frozenset[str]]:
    """The default recipe, and all that differ from it by one part."""
    yield DEFAULT
    for name in PARTS:
        yield DEFAULT ^ {name}


def all_of_them() -> Iterator[frozenset[str]]:
    """All sets of parts."""
    for chosen in itertools.product((True, False), repeat=len(PARTS)):
        yield frozenset(itertools.compress(PARTS, chosen))


def measured(scene: Scene, parts: frozenset[str], seed: int, data: str) -> Outcome:
    """One run, until the target is known to be reached or the time is over."""
    contender = Contender(name_of(parts), section(parts), lambda _: 4, fixed=OWN)
    setting = Setting(PROBLEMS[scene.problem], data, "log_normal", scene.flight)
    return simulate(
        setting, contender, OWN, seed=seed, limit=scene.limit, target=scene.target
    )


class Reached(NamedTuple):
    """When a run was at its target, and what it had sent; infinite: it was not."""

    seconds: Seconds
    nbytes: float


def reached(told: JSON, target: float) -> Reached:
    """What a saved run came to."""
    outcome = Outcome.from_json(told)
    seconds = outcome.reaches(target)
    return Reached(seconds, float(outcome.payload or 0) * (seconds / seconds))


Runs = Mapping[str, Sequence[Reached]]  # of each recipe, by seed


def worth(runs: Runs, part: str) -> tuple[Estimate, Estimate, int]:
    """What a part changes, all else equal: geometric mean ratios with it to without.

    Returns:
        the logarithms of the ratios of time and of bytes, and how many pairs have a run
        that never was at the target; these do not count.
    """
    pairs = [
        pair
        for parts in all_of_them()
        if part in parts
        for pair in zip(
            runs[name_of(parts)], runs[name_of(parts - {part})], strict=True
        )
    ]
    both = [(a, b) for a, b in pairs if math.isfinite(a.seconds + b.seconds)]
    times = [math.log(a.seconds / b.seconds) for a, b in both]
    nbytes = [math.log(a.nbytes / b.nbytes) for a, b in both]
    return estimate(times), estimate(nbytes), len(pairs) - len(both)


def ratio(found: Estimate) -> str:
    """A geometric mean with its 95 % interval."""
    half = found.half or 0.0
    low, mean, high = (math.exp(found.mean + way * half) for way in (-1, 0, 1))
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def rows_one_by_one(runs: Runs) -> Iterator[list[str]]:
    """Each recipe: the time, the gigabytes, and how many seeds were never there."""
    for name, found in runs.items():
        there = [each for each in found if math.isfinite(each.seconds)]
        if not there:
            yield [name, "never", "", f"{len(found)}"]
            continue
        time, gigabytes = (
            estimate(values)
            for values in (
                [each.seconds for each in there],
                [each.nbytes / 1e9 for each in there],
            )
        )
        missing = len(found) - len(there)
        yield [name, _with_half(time, 1), _with_half(gigabytes, 2), f"{missing}"]


def _with_half(found: Estimate, places: int) -> str:
    mean = f"{found.mean:.{places}f}"
    return mean if found.half is None else f"{mean} ± {found.half:.{places}f}"


def rows_of_all(runs: Runs) -> Iterator[list[str]]:
    """Each part: the ratios of time and of bytes, and the pairs that do not count."""
    for part in PARTS:
        time, nbytes, missing = worth(runs, part)
        yield [part, ratio(time), ratio(nbytes), f"{missing}"]


def tables(saved: JSON) -> Iterator[list[str]]:
    """The rows of both tables as they were saved, their heads included."""
    for name, rows in (("one by one", rows_one_by_one), ("all", rows_of_all)):
        yield [*COLUMNS[name]]
        yield from rows(load(saved[name]))


def load(told: JSON) -> Runs:
    """The runs of a scene as they were saved."""
    return {
        name: [reached(run, told["target"]) for run in seeds.values()]
        for name, seeds in told["runs"].items()
    }


def run(
    scene: Scene, recipes: Iterator[frozenset[str]], seeds: Sequence[int], data: str
) -> JSON:
    """Runs all recipes with all seeds."""
    told: JSON = {**scene._asdict(), "machine": machine(), "runs": {}}
    for parts in recipes:
        outcomes = {seed: measured(scene, parts, seed, data) for seed in seeds}
        told["runs"][name_of(parts)] = {
            str(seed): outcome.to_json() for seed, outcome in outcomes.items()
        }
        times = ", ".join(f"{o.reaches(scene.target):.1f}" for o in outcomes.values())
        print(f"{scene.problem}: {name_of(parts)}: {times}", flush=True)
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs both parts and prints their tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", default=os.environ.get(DATA, "data"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=COLUMNS, help="one of the two tables")
    parser.add_argument("--save", action="store_true", help="keep the runs")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    seeds, found = range(1, options.seeds + 1), dict[str, JSON]()
    try:
        if options.only != "all":
            found["one by one"] = run(ONE_BY_ONE, one_by_one(), seeds, options.data)
        if options.only != "one by one":
            found["all"] = run(ALL, all_of_them(), seeds, options.data)
    except LatecomerError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    for name, told in found.items():
        rows = rows_of_all if name == "all" else rows_one_by_one
        table = Table(*COLUMNS[name], title=name, box=box.SIMPLE_HEAD)
        for row in rows(load(json.loads(json.dumps(told)))):
            table.add_row(*row)
        console.print(table)
    if options.save:
        join(RESULTS, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
