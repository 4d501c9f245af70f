"""Client names in tables: one line each, with the end of a long name kept."""

from copy import copy

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fedcore.text import printable

_LEAST = 12  # minimum width of a shortened name
_UNLIMITED = 10_000  # columns of a terminal on which any table fits


class Name:
    """A client's name, without its middle if there is no room for all of it.

    Names with the same beginning (hospital-radiology-1, hospital-radiology-2) still
    differ.
    """

    def __init__(self, name: str) -> None:
        self._text = Text(printable(name), no_wrap=True, overflow="ellipsis")

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Yields the name in one line."""
        text, room = self._text, options.max_width
        if text.cell_len > room > 2:
            tail = text[len(text) - room // 2 :]
            while tail.cell_len > room // 2:
                tail = tail[1:]
            text = text[: room - tail.cell_len - 1]
            text.truncate(room - tail.cell_len - 1)
            text = Text.assemble(text, "…", tail, no_wrap=True, overflow="ellipsis")
        yield text

    def __rich_measure__(
        self, console: Console, options: ConsoleOptions
    ) -> Measurement:
        """Returns the least and the usual width, in columns."""
        width = self._text.cell_len
        return Measurement(min(width, _LEAST), width).with_maximum(options.max_width)


class ClientTable(Table):
    """A table with the names of clients in front.

    On a narrow terminal the last columns give way, so that the names can be read.
    """

    def __init__(self) -> None:
        super().__init__(box=None, header_style="dim", padding=(0, 1, 0, 0))

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Yields as many columns as leave room for the names."""
        unlimited = options.update_width(_UNLIMITED)
        count, names = len(self.columns), self._width(1, console, unlimited)
        while count > 2:
            others = self._width(count, console, unlimited) - names
            if others + min(names, _LEAST) <= options.max_width:
                break
            count -= 1
        yield from Table.__rich_console__(self._first(count), console, options)

    def _first(self, count: int) -> "ClientTable":
        table = copy(self)
        table.columns = self.columns[:count]
        return table

    def _width(self, count: int, console: Console, options: ConsoleOptions) -> int:
        return Measurement.get(console, options, self._first(count)).maximum
