"""The tables of a drill, for a terminal and for the docs."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.hospitals.app import LATE_CLASSES
from benchmarks.hospitals.schedule import LATE, SITES
from fedcore.typing import JSON

COLUMNS = (
    "",
    "versions",
    "before the first drop",
    "updates",
    "refused",
    "share of the late site",
    "least of the others",
    "largest",
    "accuracy",
    f"recall of {' and '.join(map(str, LATE_CLASSES))}",
    "lost",
    "doubled",
)
Rows = Mapping[str, Sequence[JSON]]


def show(console: Console, title: str, found: Rows) -> None:
    """Prints the table of one form of the drill."""
    table = Table(title=title, box=None)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column else "left")
    for way, runs in found.items():
        table.add_row(*cells(way, runs))
    console.print(table)


def markdown(found: Rows) -> Iterator[str]:
    """The rows of the table in the docs, its head included."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|" + " --- |" * len(COLUMNS)
    for way, runs in found.items():
        yield f"| {' | '.join(cells(way, runs))} |"


def cells(way: str, runs: Sequence[JSON]) -> list[str]:
    """A row: each figure's median, and its lowest and highest value."""
    others = [f"hospital-{site}" for site in range(SITES) if site != LATE]
    of_others = [[run["shares"].get(name, 0.0) for name in others] for run in runs]
    books = [run["books"] for run in runs if "books" in run]
    return [
        way,
        spread([run["versions"] for run in runs], 0),
        spread([run["versions_before"] for run in runs], 0),
        spread([run["verdicts"].get("accepted", 0) for run in runs], 0),
        spread([run["verdicts"].get("rejected_stale", 0) for run in runs], 0),
        spread([run["shares"].get(f"hospital-{LATE}", 0.0) for run in runs], 3),
        spread([min(shares) for shares in of_others], 3),
        spread([max(shares) for shares in of_others], 3),
        spread([run["accuracy"] for run in runs], 3),
        spread([run["recall"] for run in runs], 3),
        str(sum(each["lost"] for each in books)) if books else "-",
        str(sum(run["doubled"] for run in runs)),
    ]


def spread(values: Sequence[float], digits: int) -> str:
    """The median, and in brackets the lowest and the highest value."""
    low, middle, high = (
        f"{value:,.{digits}f}" for value in (min(values), median(values), max(values))
    )
    return middle if low == high else f"{middle} ({low} to {high})"
