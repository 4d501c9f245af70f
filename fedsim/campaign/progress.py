"""Bars of commands that simulate many times."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)


def bars(console: Console) -> Progress:
    """Bars with a count, the time left, and the field ``last``; on a terminal only."""
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
    """A line as it is."""
    console.print(line, soft_wrap=True, markup=False, highlight=False)
