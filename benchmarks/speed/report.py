"""The result of a benchmark: one table, and notes for reading it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.speed.measure import Figure
from fedcore.typing import JSON

RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one thing; ``against`` names what the ratio is to."""

    name: str
    figures: Mapping[str, Figure]
    against: str = ""

    @property
    def spread(self) -> str:
        """Between what the ratio lies."""
        return self.figures[RATIO].spread if RATIO in self.figures else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a benchmark: groups of rows under the same columns."""

    name: str
    title: str
    groups: Mapping[str, Sequence[Row]]
    remarks: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """All quantities, in the order in which they come up; the ratio is last."""
        rows = [row for group in self.groups.values() for row in group]
        names = dict.fromkeys(name for row in rows for name in row.figures)
        names.pop(RATIO, None)
        return [*names, RATIO]

    def show(self, console: Console) -> None:
        """Prints the table."""
        grid = Table(title=self.title, title_justify="left", box=box.SIMPLE_HEAD)
        grid.add_column("")
        for column in self.columns:
            grid.add_column(column, justify="right")
        grid.add_column("lowest to highest")
        grid.add_column("to")
        for title, rows in self.groups.items():
            grid.add_row(f"[bold]{title}[/]")
            for row in rows:
                cells = [str(row.figures.get(name, "")) for name in self.columns]
                name, against = escape(f"  {row.name}"), escape(row.against)
                grid.add_row(name, *cells, row.spread, against)
            grid.add_section()
        console.print(grid)
        for remark in self.remarks:
            console.print(f"  {remark}")

    def to_json(self) -> JSON:
        """The report with the value of each round."""
        return {
            "benchmark": self.name,
            "title": self.title,
            "groups": {
                title: {row.name: _row_json(row) for row in rows}
                for title, rows in self.groups.items()
            },
            "remarks": list(self.remarks),
        }


def _row_json(row: Row) -> JSON:
    told: JSON = {"against": row.against} if row.against else {}
    for name, figure in row.figures.items():
        told[name] = {
            "median": _rounded(figure.median),
            "values": [_rounded(value) for value in figure.values],
        }
    return told


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
