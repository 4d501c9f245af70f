"""``python -m benchmarks.claims``: runs the experiments and reports the results."""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.claims import (
    ada_comm,
    ada_sgd,
    arrivals,
    both_memories,
    coded_computation,
    coded_training,
    common_reference,
    ds_sync,
    exactly_once,
    fed_influence,
    focus,
    hidden_transfers,
    i_prof,
    large_batches,
    late_updates,
    layers,
    linear_speed_up,
    normalisation,
    online,
    oort,
    prioritised,
    rare_and_late,
    renting,
    seen_once,
    skew,
    small_batches,
    threshold_selection,
    throughput,
    unequal,
    volatile_workers,
    wide_area,
)
from benchmarks.claims.again import MOST_SECONDS, is_short, values
from benchmarks.claims.report import Report, Scale, Table, Verdict
from benchmarks.series import after, runs
from benchmarks.speed.measure import machine

CLAIMS: dict[int, Callable[[Scale], Report]] = {
    2: both_memories.run,
    3: exactly_once.run,
    4: common_reference.run,
    5: ada_sgd.run,
    6: ada_sgd.run_straggler,
    7: i_prof.run,
    8: late_updates.run,
    9: threshold_selection.run,
    10: fed_influence.run,
    11: hidden_transfers.run,
    12: volatile_workers.run,
    13: coded_computation.run,
    14: throughput.run,
    16: linear_speed_up.run,
    17: seen_once.run,
    18: rare_and_late.run,
    19: ds_sync.run,
    20: wide_area.run,
    21: skew.run,
    22: prioritised.run,
    23: unequal.run_flexible,
    24: normalisation.run,
    25: small_batches.run,
    26: unequal.run_methods,
    27: oort.run,
    28: ada_comm.run,
    29: online.run,
    30: coded_training.run,
    31: focus.run,
    32: layers.run,
    33: renting.run,
    34: arrivals.run,
    35: large_batches.run,
}
FRESH = 200  # bounds and settings were chosen with seeds below 5
RESULTS = Path(__file__).parent.parent / "results" / "claims.json"
TITLE_1 = "claim 1: No update is lost or counted twice"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if a claim failed that was known to hold."""
    options = _options(arguments)
    seeds = range(options.first, options.first + options.seeds)
    scale = Scale(tuple(seeds), options.quick)
    console, reports = Console(highlight=False), dict[int, tuple[Report, float]]()
    sound = True
    if not console.is_terminal:
        console.width = 120
    if options.saved:
        console.print(before_and_after())
        return 0
    if options.again:
        return int(not all([*are_as_saved(console, options.claims)]))
    for number in options.claims or [1, *CLAIMS]:
        if number == 1:
            sound = model_check(console, scale)
            continue
        reports[number] = measured(console, f"claim {number}", CLAIMS[number], scale)
    if options.save:
        save(reports, scale)
    held = sound and all(report.is_as_recorded for report, _ in reports.values())
    return int(not scale.quick and not held)


def measured(
    console: Console, name: str, run: Callable[[Scale], Report], scale: Scale
) -> tuple[Report, float]:
    """Runs an experiment and prints what it shows.

    Returns:
        The report, and the seconds that it took.
    """
    began = time.perf_counter()
    with console.status(name):
        report = run(scale)
    seconds = time.perf_counter() - began
    show(console, report, scale, seconds)
    return report, seconds


def model_check(console: Console, scale: Scale) -> bool:
    """Claim 1, on random schedules; says whether all invariants held."""
    console.rule(TITLE_1)
    events = scale.of(100_000, 3_000)
    words = [sys.executable, "-m", "tests.protocol.soak", "--events", str(events)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = (done.stdout or done.stderr).strip().splitlines()
    console.print(lines[-1] if lines else f"ended with code {done.returncode}")
    verdict = "FAIL" if done.returncode else "PASS"
    console.print(f"claim 1: {verdict} (make soak for ten million events)")
    return done.returncode == 0


def are_as_saved(console: Console, numbers: Sequence[int]) -> Iterator[bool]:
    """Runs the first saved seed of short claims again, and says what has changed."""
    for saved in json.loads(RESULTS.read_text())["claims"]:
        number = saved["claim"]
        if (numbers and number not in numbers) or not is_short(saved):
            continue
        with console.status(f"claim {number}"):
            report = CLAIMS[number](Scale((saved["seeds"][0],)))
        found = [*values(report, saved)]
        same, far = (
            [value for value in found if getattr(value, name)]
            for name in ("is_the_same", "is_far")
        )
        console.print(
            f"claim {number}, seed {saved['seeds'][0]}: {len(same)} of {len(found)} "
            f"values as saved, {len(far)} further off than seeds are"
        )
        for value in far:
            console.print(f"  {value.place}: {value.saved:g}, now {value.today:g}")
        yield bool(found) and not far


def before_and_after() -> Grid:
    """Returns what was saved: the seeds with which a claim was chosen, and others."""
    grid = Grid(title="checks on which claims stand", box=box.SIMPLE_HEAD)
    for name in ("claim", "first seeds", "holding", "fresh seeds", *Verdict, "verdict"):
        if name is not Verdict.IN_PART:
            grid.add_column(name, justify="right")
    for saved in json.loads(RESULTS.read_text())["claims"]:
        every = [run for run in runs(saved) if not run["quick"]]
        first = next((run for run in every if run["seeds"][0] < FRESH), None)
        fresh = next((run for run in every[::-1] if run["seeds"][0] >= FRESH), None)
        cells = [str(saved["claim"])]
        if first is None:
            cells += ["", ""]
        else:
            held = [check["holds"] for check in first["checks"] if check["gates"]]
            cells += [str(len(first["seeds"])), f"{sum(held)} of {len(held)}"]
        if fresh is not None:
            gates = [check for check in fresh["checks"] if check["gates"]]
            counts = Counter(check["verdict"] for check in gates)
            cells += [str(len(fresh["seeds"]))]
            cells += [str(counts[v]) for v in Verdict if v is not Verdict.IN_PART]
            cells += [fresh["verdict"]]
        grid.add_row(*cells)
    return grid


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claims")
    parser.add_argument("claims", nargs="*", type=_claim, help="which; all if none")
    parser.add_argument(
        "--seeds", type=_positive, default=10, help="so many; 10 if not said"
    )
    parser.add_argument(
        "--first",
        type=_whole,
        default=FRESH,
        help=f"the first seed; {FRESH} if not said",
    )
    parser.add_argument("--quick", action="store_true", help="a few rounds, no verdict")
    parser.add_argument(
        "--again",
        action="store_true",
        help="compare one seed with what was saved, of claims where that takes at most "
        f"{MOST_SECONDS:g} s; exit 1 if it is far off",
    )
    parser.add_argument(
        "--saved",
        action="store_true",
        help="run nothing: what was saved, with the first seeds and with fresh ones",
    )
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    return parser.parse_args(arguments)


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: expected 0 or a whole number")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number above 0")
    return int(text)


def _claim(text: str) -> int:
    if text not in map(str, (1, *CLAIMS)):
        known = ", ".join(map(str, (1, *CLAIMS)))
        raise argparse.ArgumentTypeError(f"no claim {text}; there are {known}")
    return int(text)


def show(console: Console, report: Report, scale: Scale, seconds: float) -> None:
    """Prints tables, checks and the verdict."""
    console.rule(f"claim {report.number}: {report.title}")
    console.print(f"{report.source}; {len(scale.seeds)} seeds, {seconds:.0f} s")
    for table in report.tables:
        console.print(_grid(table))
    if scale.quick:
        console.print(f"claim {report.number}: too quick for a verdict")
        return
    for check in report.checks:
        value = f"{check.value:.3f}"
        if check.half:
            value += f" ({check.low:.3f} to {check.high:.3f})"
        fails = check.verdict is Verdict.NOT
        kind = "" if check.gates else " (reported only)"
        known = f" (known: {check.known})" if check.known and fails else ""
        console.print(f"  {check.verdict}: {check.sentence}: {value}{kind}{known}")
    counts = Counter(check.verdict for check in report.gates)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    news = "" if report.is_as_recorded else "; NOT AS RECORDED"
    console.print(f"claim {report.number}: {report.verdict} (checks: {told}){news}")


def _grid(table: Table) -> Grid:
    """Each column, and beside it what was expected where something was."""
    rows = table.rows
    grid = Grid(title=table.title, title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("", no_wrap=True)
    known = [
        any(cells[place].expected for cells in rows.values())
        for place in range(len(table.columns))
    ]
    for column, is_known in zip(table.columns, known, strict=True):
        grid.add_column(column, justify="right", no_wrap=True)
        if is_known:
            grid.add_column("before", justify="right", style="dim", no_wrap=True)
    for name, cells in rows.items():
        texts = [name]
        for cell, is_known in zip(cells, known, strict=True):
            texts += [str(cell), cell.expected] if is_known else [str(cell)]
        grid.add_row(*texts)
    return grid


def save(
    reports: dict[int, tuple[Report, float]], scale: Scale, path: Path | None = None
) -> None:
    """Writes the value of every seed, if no path is given to ``results/claims.json``.

    Claims that were not run now keep what they had, and those that were keep earlier
    runs too, which may be of more seeds.
    """
    path = path or RESULTS
    path.parent.mkdir(exist_ok=True)
    text = path.read_text() if path.exists() else '{"claims": []}'
    known = {found["claim"]: found for found in json.loads(text)["claims"]}
    for number, (report, seconds) in reports.items():
        run = {
            **report.to_json(),
            "machine": machine(),
            "seeds": list(scale.seeds),
            "quick": scale.quick,
            "seconds": round(seconds),
        }
        known[number] = after(known.get(number), run)
    results = {"claims": [known[number] for number in sorted(known)]}
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
