"""The tables, on a terminal and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.simulation.race import Outcome
from benchmarks.speed.measure import Figure
from fedcore.typing import JSON


@dataclass(frozen=True, slots=True)
class Row:
    """All runs of a contender, and how good their models were."""

    outcomes: Sequence[Outcome]
    accuracies: Sequence[float]

    @property
    def rate(self) -> Figure:
        """Updates a second."""
        return Figure([outcome.rate for outcome in self.outcomes])

    @property
    def start(self) -> Figure:
        """Seconds until the first round had ended."""
        return Figure([outcome.start for outcome in self.outcomes])

    @property
    def megabytes(self) -> Figure:
        """At the peak, of all its processes."""
        return Figure([outcome.megabytes for outcome in self.outcomes])

    @property
    def figures(self) -> dict[str, Figure]:
        """All of it, by name."""
        return {
            "updates/s": self.rate,
            "start, s": self.start,
            "MB": self.megabytes,
            "accuracy": Figure(self.accuracies),
        }

    @property
    def torch(self) -> str:
        """Its version, where it was used."""
        return self.outcomes[0].torch


Rows = Mapping[str, Row | str]  # a sentence says why there is no row


def faster(first: Row, other: Row) -> Figure:
    """How much faster the first is, run by run."""
    return first.rate.over(other.rate)


def show(console: Console, title: str, rows: Rows) -> None:
    """A table of contenders; ratios are of the first one to each."""
    name, first = next(iter(rows.items()))
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("")
    for column in ("updates/s", "lowest to highest", "start, s", "MB", "accuracy"):
        grid.add_column(column, justify="right")
    grid.add_column(f"{name} is × as fast", justify="right")
    for contender, row in rows.items():
        if isinstance(row, str):
            grid.add_row(contender, "none")
            continue
        ratio = "" if isinstance(first, str) else _told(faster(first, row))
        grid.add_row(
            contender,
            str(row.rate),
            row.rate.spread,
            f"{row.start.median:.2f}",
            f"{row.megabytes.median:,.0f}",
            f"{Figure(row.accuracies).median:.3f}",
            ratio,
        )
    console.print(grid)
    for remark in remarks(rows):
        console.print(f"  {remark}")


def _told(figure: Figure) -> str:
    return f"{figure} ({figure.spread})" if figure.spread else str(figure)


def remarks(rows: Rows) -> list[str]:
    """What has to be known to read the table."""
    found = [f"{name}: {row}" for name, row in rows.items() if isinstance(row, str)]
    found += [
        f"{name} has torch {row.torch}: CUDA libraries are in its memory and start"
        for name, row in rows.items()
        if isinstance(row, Row) and "+cu" in row.torch
    ]
    return found


def to_json(rows: Rows) -> JSON:
    """The value of every run."""
    told: JSON = {}
    for name, row in rows.items():
        if isinstance(row, str):
            told[name] = {"absent": row}
            continue
        told[name] = {
            column: {
                "median": _rounded(figure.median),
                "values": [_rounded(value) for value in figure.values],
            }
            for column, figure in row.figures.items()
        }
        if row.torch:
            told[name]["torch"] = row.torch
    return told


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
