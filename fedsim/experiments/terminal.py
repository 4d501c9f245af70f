"""What experiments read from a command line, and print: numbers, bars and tables."""

from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from fedcore.errors import ConfigError
from fedrun import units
from fedrun.report import page
from fedsim.experiments.statistics import Estimate

WIDTH = 140  # of the table where there is no terminal


def split(text: str) -> list[str]:
    """Splits a text at its commas, except for those inside brackets and braces."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def whole_numbers(
    option: str, text: str, expected: str, *, least: int = 1, most: int = 2**31 - 1
) -> list[int]:
    """Reads whole numbers with commas between them.

    Args:
        option: of the command line, for errors.
        text: what was given.
        expected: what could have been given, in words.
        least: the smallest number that is allowed.
        most: the largest.

    Raises:
        ConfigError: a part is no such number.
    """
    parts = [part.strip() for part in text.split(",")]
    digits = len(str(most))  # longer ones need not be read
    if not all(
        part.isdecimal() and len(part) <= digits and least <= int(part) <= most
        for part in parts
    ):
        raise ConfigError(f"{option} {text}: expected {expected}")
    return [int(part) for part in parts]


def with_interval(found: Estimate) -> str:
    """A metric's mean with its 95 % interval: ``0.9062 ± 0.0031``."""
    if not found.size:
        return "–"
    around = f" ± {found.half:.2g}" if found.half else ""
    return f"{units.metric(found.mean)}{around}"


def column(estimates: Sequence[Estimate], unit: units.Unit) -> list[str]:
    """Costs with their intervals, all in one unit: ``1,230 ± 12``."""
    return [
        f"{units.digits(e.mean / unit.size)} ± {units.digits(e.half / unit.size)}"
        if e.half
        else units.digits(e.mean / unit.size)
        if e.size
        else "–"
        for e in estimates
    ]


def largest(estimates: Sequence[Estimate]) -> float:
    """The largest mean, for the unit of a column."""
    return max((e.mean for e in estimates if e.size), default=0.0)


def screen() -> Console:
    """A console for wide tables, with 140 columns where there is no terminal."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    return console


def bars(console: Console) -> Progress:
    """Bars with a count, the time left and the field ``last``, on a terminal only."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", markup=False),
        console=console,
        disable=not console.is_terminal,
    )


def tell(console: Console, line: str) -> None:
    """Prints a line as it is, without markup and line breaks."""
    console.print(line, soft_wrap=True, markup=False, highlight=False)


class Cells(NamedTuple):
    """A table of texts, for a terminal and for a page."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    """A letter for each column: a space for left, ``r`` for right, ``n`` for right and
    on one line."""

    def on_screen(
        self, *, title: str = "", caption: str = "", highlighted: int | None = None
    ) -> Table:
        """The table for a terminal.

        Args:
            title: a line above it.
            caption: a line below it.
            highlighted: the number of the row that is shown in green.
        """
        table = Table(
            title=Text(title) if title else None,
            title_justify="left",
            caption=Text(caption) if caption else None,
            caption_justify="left",
            box=box.SIMPLE,
            padding=(0, 1, 0, 0),
        )
        for name, mark in zip(self.head, self.align, strict=True):
            table.add_column(
                Text(name),
                justify="left" if mark == " " else "right",
                overflow="ellipsis" if mark == "n" else "fold",
                no_wrap=mark == "n",
            )
        for place, row in enumerate(self.rows):
            style = "bold green" if place == highlighted else ""
            table.add_row(*map(Text, row), style=style)
        return table

    def on_page(self) -> str:
        """The table as HTML, escaped."""
        rows = [[page.text(cell) for cell in row] for row in self.rows]
        align = self.align.replace("n", "r")
        return page.table([page.text(name) for name in self.head], rows, align)
