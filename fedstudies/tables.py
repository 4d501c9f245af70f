"""Numbers with intervals, bars and tables, as studies print them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from fedrun import units
from fedstudies.statistics import Estimate
from fedview.report import page

WIDTH = 140  # of the table where there is no terminal


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


def cost_columns(
    costs: Mapping[str, Sequence[Estimate]],
) -> tuple[list[str], list[list[str]]]:
    """The heads and the cells of the columns of a table with costs.

    Args:
        costs: the estimates of each row, by ``versions``, ``updates``, ``nbytes`` or
            ``seconds``.
    """
    heads, columns = [], []
    for name, estimates in costs.items():
        unit = units.Unit(1.0, name)
        if name == "seconds":
            unit = units.time_unit(largest(estimates))
        elif name == "nbytes":
            unit = units.byte_unit(largest(estimates))
        heads.append(f"payload {unit.name}" if name == "nbytes" else unit.name)
        columns.append(column(estimates, unit))
    return heads, columns


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
        _Last("{task.fields[last]}", markup=False, table_column=Column()),
        console=console,
        disable=not console.is_terminal,
    )


class _Last(TextColumn):
    """A column that is cut off where the others leave it no room."""

    def render(self, task: Task) -> Text:
        """Returns the text of one line."""
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


def tell(console: Console, line: str) -> None:
    """Prints a line as it is, without markup and line breaks."""
    console.print(line, soft_wrap=True, markup=False, highlight=False)


class Cells(NamedTuple):
    """A table of texts, for a terminal and for a page."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    """A letter for each column: a space for left, ``r`` for right, ``n`` for right and
    on one line, ``b`` for left and broken after a colon or a comma where the terminal
    is too narrow."""

    def on_screen(
        self, *, title: str = "", caption: str = "", highlighted: int | None = None
    ) -> RenderableType:
        """The table for a terminal.

        Where it is too wide for the terminal, it is printed in parts, one below the
        other, and each of them begins with the columns that tell the rows apart.

        Args:
            title: a line above it.
            caption: a line below it.
            highlighted: the number of the row that is shown in green.
        """
        return _OnScreen(self, title, caption, highlighted)

    def break_names(self) -> "Cells":
        """Returns the table with broken texts where that is allowed."""
        rows = [
            [
                re.sub("(?<=[:,])(?=.)", "\n", cell) if mark == "b" else cell
                for cell, mark in zip(row, self.align, strict=True)
            ]
            for row in self.rows
        ]
        return self._replace(rows=rows)

    def on_page(self) -> str:
        """The table as HTML, escaped."""
        rows = [[page.text(cell) for cell in row] for row in self.rows]
        align = self.align.replace("n", "r").replace("b", " ")
        return page.table([page.text(name) for name in self.head], rows, align)


_EDGE = 1  # to the left of a table
_GAP = 2  # to the right of each column


class _OnScreen(NamedTuple):
    """A table that is laid out for the width of the terminal."""

    cells: Cells
    title: str
    caption: str
    highlighted: int | None

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[Table]:
        """Yields the parts of the table."""
        room = options.max_width - _EDGE
        if self._used(range(len(self.cells.head))) > room:
            yield from self._replace(cells=self.cells.break_names())._in_parts(room)
        else:
            yield from self._in_parts(room)

    def _in_parts(self, room: int) -> Iterator[Table]:
        parts = self._parts(room)
        for number, part in enumerate(parts):
            title = self.title if number == 0 else ""
            caption = self.caption if number == len(parts) - 1 else ""
            yield self._table(part, room, title, caption)

    def _parts(self, room: int) -> list[list[int]]:
        """The columns of each part, by their places."""
        parts: list[list[int]] = [[]]
        keys = self._keys(room)
        for place in range(len(self.cells.head)):
            if self._used([*parts[-1], place]) > room and len(parts[-1]) > len(keys):
                parts.append([*keys])
            parts[-1].append(place)
        return parts

    def _keys(self, room: int) -> range:
        """The first columns, as many as tell the rows apart and leave half of the room.

        One, if there are no such columns.
        """
        rows = self.cells.rows
        for count in range(1, len(self.cells.head)):
            if self._used(range(count)) > room // 2:
                break
            if len({tuple(row[:count]) for row in rows}) == len(rows):
                return range(count)
        return range(1)

    def _used(self, places: Iterable[int]) -> int:
        """The least width of columns with what is between them."""
        return sum(self._least(place) + _GAP for place in places)

    def _texts(self, place: int) -> list[str]:
        return [self.cells.head[place], *(row[place] for row in self.cells.rows)]

    def _least(self, place: int) -> int:
        """The least width of a column: no word is broken, and no number."""
        head, *texts = self._texts(place)
        if self.cells.align[place] != "n":
            texts = [word for text in texts for word in text.split()]
        return max(map(cell_len, [*texts, *head.split()]), default=0)

    def _widths(self, part: Sequence[int], room: int) -> list[int]:
        """The width of each column: the first ones get the room that is left."""
        widths = [self._least(place) for place in part]
        left = room - sum(width + _GAP for width in widths)
        for number, place in enumerate(part):
            lines = [each for text in self._texts(place) for each in text.splitlines()]
            whole = max(map(cell_len, lines), default=0)
            more = max(0, min(whole - widths[number], left))
            widths[number] += more
            left -= more
        return widths

    def _table(self, part: Sequence[int], room: int, title: str, caption: str) -> Table:
        table = Table(
            title=Text(title) if title else None,
            title_justify="left",
            caption=Text(caption) if caption else None,
            caption_justify="left",
            box=box.SIMPLE,
            padding=(0, 1, 0, 0),
        )
        for place, width in zip(part, self._widths(part, room), strict=True):
            table.add_column(
                Text(self.cells.head[place]),
                justify="left" if self.cells.align[place] in " b" else "right",
                overflow="fold",
                width=width,
            )
        for number, row in enumerate(self.cells.rows):
            style = "bold green" if number == self.highlighted else ""
            table.add_row(*(Text(row[place]) for place in part), style=style)
        return table
