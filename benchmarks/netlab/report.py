"""The tables of federations over bad links, for a terminal and for the docs."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.netlab.ways import OURS, TARGET, UNCOMPRESSED
from fedcore.typing import JSON

LONG = "long"
COLUMNS = (
    "",
    f"seconds to {TARGET}",
    "versions",
    "updates",
    "MB up",
    "MB down",
    "cuts",
    "lost",
    "doubled",
)


def show(
    console: Console, found: Mapping[str, Sequence[JSON]], *, is_long: bool
) -> None:
    """Prints the table, and how many times sooner the recipe was."""
    title = "The long run" if is_long else "Over six bad links"
    table = Table(title=title, box=None)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column else "left")
    for way, rows in found.items():
        table.add_row(*cells(way, rows))
    console.print(table)
    for row in (row for rows in found.values() for row in rows):
        if not row["books"]["balance"]:
            console.print(f"seed {row['seed']}: the books do not balance: {row}")
    if {OURS, UNCOMPRESSED} <= found.keys():
        ratios = sorted(times_sooner(found[OURS], found[UNCOMPRESSED]))
        if ratios:
            told = f"{median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})"
            console.print(f"{OURS} is there {told} times as soon as {UNCOMPRESSED}")


def cells(way: str, rows: Sequence[JSON]) -> list[str]:
    """A row: each figure's median, and its lowest and highest value."""
    figures = [
        _spread([_or_limit(row) for row in rows], 0),
        _spread([row["versions"] for row in rows], 0),
        _spread([row["books"]["journalled"] for row in rows], 0),
        *(_spread([row["bytes"][to] / 1e6 for row in rows], 1) for to in ("up", "down")),
        _spread([row["cuts"] for row in rows], 0),
        str(sum(row["books"]["lost"] for row in rows)),
        str(sum(row["books"]["doubled"] for row in rows)),
    ]
    if any(row["seconds"] is None for row in rows):
        figures[0] = f"more than {figures[0]}"
    return [way, *figures]


def times_sooner(ours: Sequence[JSON], theirs: Sequence[JSON]) -> list[float]:
    """How many times as soon, seed by seed; at least, where theirs never got there."""
    return list(_ratios(ours, theirs))


def _ratios(ours: Sequence[JSON], theirs: Sequence[JSON]) -> Iterator[float]:
    by_seed = {row["seed"]: row for row in theirs}
    for row in ours:
        if row["seconds"] is not None and row["seed"] in by_seed:
            yield _or_limit(by_seed[row["seed"]]) / row["seconds"]


def _or_limit(row: JSON) -> float:
    return float(row["limit"] if row["seconds"] is None else row["seconds"])


def _spread(values: Sequence[float], digits: int) -> str:
    low, high = min(values), max(values)
    middle = f"{median(values):,.{digits}f}"
    if len(values) == 1 or low == high:
        return middle
    return f"{middle} ({low:,.{digits}f} to {high:,.{digits}f})"
