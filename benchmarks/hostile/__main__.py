"""``python -m benchmarks.hostile``: one hostile peer against eight honest clients.

Server, honest clients and peer are processes of their own. Windows without and with the
attack alternate. ``--before FOLDER`` also attacks an older state of the sources, in
turn with this one; with it, ``speed`` compares the two without any attack.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.hostile.checkout import ROOT, Checkout
from benchmarks.hostile.results import Found, attack, save, save_speed
from benchmarks.hostile.scenarios import SCENARIOS, Scenario
from benchmarks.hostile.single import SINGLE
from benchmarks.hostile.speed import speed
from benchmarks.hostile.stage import Stage


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes what is named, or all."""
    options = _options(arguments)
    checkouts = {"after": Checkout(ROOT)}
    if options.before is not None:
        before = {"before": Checkout(options.before.resolve())}
        checkouts = before if options.only_before else before | checkouts
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 130
    if options.what == ["speed"] and options.before is not None:
        compared = speed(checkouts["before"], Checkout(ROOT))
        console.print(compared)
        if options.save:
            save_speed(compared)
        return 0
    table = _table()
    for name in options.what or [*SCENARIOS, *SINGLE]:
        for which, checkout in checkouts.items():
            if name in SINGLE:
                figures = SINGLE[name](checkout)
                console.print(name, which, figures)
                if options.save:
                    save("single", name, which, figures)
                continue
            scenario = SCENARIOS[name]
            found = _attack(scenario, which, checkout, options)
            table.add_row(*_row(which, scenario, found))
            if options.save:
                about = {"title": scenario.title, "pairs": options.pairs}
                save("attacks", name, which, found.to_json(), **about)
    if table.row_count:
        console.print(table)
    return 0


def _attack(
    scenario: Scenario, which: str, checkout: Checkout, options: argparse.Namespace
) -> Found:
    with (
        tempfile.TemporaryDirectory() as scratch,
        Stage(Path(scratch) / which, scenario, checkout) as stage,
    ):
        return attack(stage, options.pairs, options.seconds)


def _table() -> Table:
    table = Table(title="One hostile peer", title_justify="left", box=box.SIMPLE_HEAD)
    heads = ("updates/s", "ratio", "MB", "growth", "slowest s", "harmed", "goes on")
    table.add_column("")
    table.add_column("")
    for head in (*heads, "journal"):
        table.add_column(head, justify="right")
    return table


def _row(which: str, scenario: Scenario, found: Found) -> list[str]:
    calm, attacked = zip(*found.pairs, strict=True)
    return [
        scenario.title,
        which,
        f"{median(w.rate for w in calm):.1f} > {median(w.rate for w in attacked):.1f}",
        f"{median(found.ratios):.2f}",
        f"{calm[0].megabytes:.0f} > {max(w.megabytes for w in attacked):.0f}",
        f"{found.growth:.2f}",
        f"{max(w.slowest for w in attacked):.2f}",
        str(len(found.harmed)),
        "yes" if found.goes_on else "no",
        "sound" if found.end.is_sound else "not sound",
    ]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile")
    parser.add_argument(
        "what", nargs="*", type=_named, help=f"of {', '.join([*SCENARIOS, *SINGLE])}"
    )
    parser.add_argument(
        "--pairs", type=int, default=3, help="of windows; 3 if not said"
    )
    parser.add_argument("--seconds", type=float, help="of a window, for all attacks")
    parser.add_argument("--before", type=Path, help="an older state of the sources")
    parser.add_argument("--only-before", action="store_true", help="only that one")
    parser.add_argument("--save", action="store_true", help="write hostile.json")
    return parser.parse_args(arguments)


def _named(text: str) -> str:
    known = [*SCENARIOS, *SINGLE, "speed"]
    if text not in known:
        raise argparse.ArgumentTypeError(f"no {text!r}; there are {', '.join(known)}")
    return text


if __name__ == "__main__":
    sys.exit(main())
