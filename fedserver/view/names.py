"""Client names in tables: one line each, with the end of a long name kept."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from fedcore.text import printable

_LEAST = 12  # minimum width of a shortened name


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
