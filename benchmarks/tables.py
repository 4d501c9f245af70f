"""A table of series, for both a terminal and the docs."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

Row = Sequence[str]


def show(console: Console, title: str, columns: Row, rows: Iterable[Row]) -> None:
    """Prints a table; its first column names the rows."""
    table = Table(title=title, box=None)
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def markdown(columns: Row, rows: Iterable[Row]) -> Iterator[str]:
    """The lines of a table in the docs, its head included."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def spread(values: Sequence[float], digits: int) -> str:
    """The median, and in brackets the lowest and the highest value."""
    low, middle, high = (
        f"{value:,.{digits}f}" for value in (min(values), median(values), max(values))
    )
    return middle if low == high else f"{middle} ({low} to {high})"
