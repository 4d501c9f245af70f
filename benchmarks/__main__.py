"""``python -m benchmarks``: speed of this project, beside floors and peers."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from benchmarks.series import after
from benchmarks.speed import (
    aggregation,
    catch_up,
    counting,
    dear,
    durable,
    replay,
    scraping,
    server,
    start,
)
from benchmarks.speed.measure import Scale, machine
from benchmarks.speed.report import RATIO, Report
from fedcore.typing import JSON

BENCHMARKS: dict[str, Callable[[Scale], Report]] = {
    "aggregation": aggregation.run,
    "catch_up": catch_up.run,
    "counting": counting.run,
    "dear": dear.run,
    "durable": durable.run,
    "replay": replay.run,
    "scraping": scraping.run,
    "server": server.run,
    "start": start.run,
}
RESULTS = Path(__file__).parent / "results" / "speed.json"
SHORT = ("aggregation", "start")  # they take seconds at full length
ROUNDS = 3  # of those, when they are run again
FAR = 2.0  # times the largest ratio that was saved


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmarks that are named, or all."""
    options = _options(arguments)
    scale = Scale(options.repetitions, options.quick)
    console, reports = Console(highlight=False), dict[str, JSON]()
    if not console.is_terminal:
        console.width = 120
    if options.again:
        found = [*are_as_fast(console, options.benchmarks or SHORT)]
        return int(not found or not all(found))
    for name in possible(console, options.benchmarks or BENCHMARKS):
        where = machine()
        with console.status(name):
            report = BENCHMARKS[name](scale)
        report.show(console)
        about = {"machine": where, "repetitions": scale.rounds, "quick": scale.quick}
        reports[name] = {**report.to_json(), **about}
    if options.save:
        save(reports)
    return 0


def possible(console: Console, names: Iterable[str]) -> Iterator[str]:
    """Yields the benchmarks for which all is installed, and says which are left out."""
    for name in names:
        if name == "scraping" and find_spec("uvicorn") is None:
            needs = "scraping: not tried, it needs pip install 'latecomer[web]'"
            console.print(needs, markup=False)
        else:
            yield name


def are_as_fast(console: Console, names: Sequence[str]) -> Iterator[bool]:
    """Runs benchmarks again, and says where a ratio is much worse than was saved."""
    kept = json.loads(RESULTS.read_text())["benchmarks"]
    for name in possible(console, names):
        with console.status(name):
            report = BENCHMARKS[name](Scale(ROUNDS))
        found = [*compared(report, kept.get(name, {"groups": {}}))]
        slower = [line for line, is_slower in found if is_slower]
        console.print(
            f"{name}: {len(slower)} of {len(found)} ratios much worse than was saved"
        )
        for line in slower:
            console.print(f"  {line}")
        yield bool(found) and not slower


def compared(report: Report, saved: JSON) -> Iterator[tuple[str, bool]]:
    """Yields the ratios that were saved, and whether they are much larger today."""
    for title, rows in report.groups.items():
        known = saved["groups"].get(title, {})
        for row in rows:
            if RATIO not in row.figures or RATIO not in known.get(row.name, {}):
                continue
            most, today = max(known[row.name][RATIO]["values"]), row.figures[RATIO]
            place = f"{title}, {row.name}"
            line = f"{place}: {today} times {row.against}, {most:.3g} at most before"
            yield line, today.median > FAR * most


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument(
        "benchmarks", nargs="*", type=_benchmark, help=f"of {', '.join(BENCHMARKS)}"
    )
    parser.add_argument(
        "--repetitions", type=int, default=7, help="so many rounds; 7 if not said"
    )
    parser.add_argument("--quick", action="store_true", help="tiny, to try it out")
    parser.add_argument(
        "--again",
        action="store_true",
        help=f"compare ratios with what was saved, of {' and '.join(SHORT)} if none is "
        f"named; exit 1 if one is more than {FAR:g} times the largest one",
    )
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    return parser.parse_args(arguments)


def _benchmark(text: str) -> str:
    if text not in BENCHMARKS:
        raise argparse.ArgumentTypeError(
            f"no benchmark {text!r}; there are {', '.join(BENCHMARKS)}"
        )
    return text


def save(found: dict[str, JSON]) -> None:
    """Writes every value of every round, beside those of earlier runs."""
    kept = {}
    if RESULTS.is_file():
        kept = json.loads(RESULTS.read_text())["benchmarks"]
    kept |= {name: after(kept.get(name), run) for name, run in found.items()}
    told = {"benchmarks": {name: kept[name] for name in BENCHMARKS if name in kept}}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
