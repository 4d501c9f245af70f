"""``python -m benchmarks.fresh``: which saved results are older than the program.

A result is *older* if code that it rests on has changed, and *of another program* if a
golden run of its methods has changed too: then its figures may not be quoted any more.
One that was saved before results named what they rest on is *unknown*. ``--run`` runs
the command of each that is older or of another program again.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.basis import COMMAND, RESTS_ON, Change, compare
from benchmarks.series import EARLIER

RESULTS = Path(__file__).parent / "results"
QUICK = (
    ("-m", "benchmarks.claims", "--again"),
    ("-m", "benchmarks", "--again"),
    ("-m", "benchmarks", "--quick"),  # whether it runs: tiny runs give no verdict
)
_MOST_NAMES = 4  # of places that changed, that are shown


class Age(StrEnum):
    """How a result stands to today's program."""

    FRESH = "fresh"
    OLDER = "older"
    OTHER = "of another program"
    UNKNOWN = "unknown"


class Result(NamedTuple):
    """A saved result, what made it, and what has changed in the program since."""

    name: str
    """The file, and the keys below it."""
    command: str
    """What made it; empty if unknown."""
    change: Change | None
    """The changes since then; None if unknown."""

    @property
    def age(self) -> Age:
        """How it stands to today's program."""
        if self.change is None:
            return Age.UNKNOWN
        if self.change.golden:
            return Age.OTHER
        return Age.OLDER if self.change.sources else Age.FRESH


def results(folder: Path = RESULTS) -> Iterator[Result]:
    """Yields all results of a folder of files."""
    for path in sorted(folder.glob("*.json")):
        found = [*_results_in(json.loads(path.read_text("utf-8")), (path.stem,))]
        yield from found or [Result(path.stem, "", None)]


def _results_in(tree: Any, keys: tuple[str, ...]) -> Iterator[Result]:
    """Yields the results in a part of a file; a claim is named by its number."""
    if isinstance(tree, dict):
        if RESTS_ON in tree:
            left_out = (RESTS_ON, EARLIER)
            own = {key: value for key, value in tree.items() if key not in left_out}
            change = compare(tree[RESTS_ON], f"{keys} {own}")
            yield Result(": ".join(keys), tree[COMMAND], change)
        elif len(keys) > 1 and ("machine" in tree or "claim" in tree):
            yield Result(": ".join(keys), "", None)
        for key, value in tree.items():
            if key not in (EARLIER, RESTS_ON, "machine"):
                yield from _results_in(value, (*keys, key))
        return
    for value in tree if isinstance(tree, list) else ():
        if isinstance(value, dict) and "claim" in value:
            yield from _results_in(value, (*keys[:1], str(value["claim"])))


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if a result is of another program, or a run fails."""
    options = _options(arguments)
    console = Console(highlight=False)
    if options.quick:
        return _run_all(QUICK, console)
    found = [r for r in results() if r.name.startswith(tuple(options.names or [""]))]
    if not found:
        raise SystemExit(f"no result begins with {' or '.join(options.names)}")
    show(console, found)
    if not options.run:
        return int(any(result.age is Age.OTHER for result in found))
    stale = (r for r in found if r.age in (Age.OLDER, Age.OTHER) and r.command)
    commands = dict.fromkeys(result.command for result in stale)
    return _run_all(map(shlex.split, commands), console)


def show(console: Console, found: Sequence[Result]) -> None:
    """Prints how each result stands, and the places that have changed."""
    grid = Table(box=box.SIMPLE_HEAD)
    for column in ("result", "", "changed since", "made by python"):
        grid.add_column(column)
    for result in found:
        change = result.change or Change((), ())
        names = [*(f"golden {name}" for name in change.golden), *change.sources]
        told = ", ".join(names[:_MOST_NAMES])
        if (more := len(names) - _MOST_NAMES) > 0:
            told += f" and {more} more"
        grid.add_row(result.name, result.age, told, result.command)
    console.print(grid)


def _run_all(commands: Iterable[Sequence[str]], console: Console) -> int:
    """Returns 1 if one of them fails or is killed; all are run."""
    codes = [_run(words, console) for words in commands]
    return int(any(codes))


def _run(words: Sequence[str], console: Console) -> int:
    console.rule(f"python {' '.join(words)}")
    return subprocess.run([sys.executable, *words], check=False).returncode


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fresh")
    parser.add_argument("names", nargs="*", help="how results begin; all if none")
    parser.add_argument("--run", action="store_true", help="run what is older again")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="compare a seed of short claims and short benchmarks with what was saved",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
