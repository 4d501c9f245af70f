"""A bar for replays that take more than a moment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

Progress = Callable[[int, int], None]
"""Called with how many steps are done, and how many there are."""


def silent(done: int, total: int) -> None:
    """Shows nothing."""


@contextmanager
def bar(what: str) -> Iterator[Progress]:
    """Shows a bar on a terminal's standard error; yields what moves it.

    Args:
        what: is counted.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    hidden = not console.is_terminal
    with Bar(*columns, console=console, disable=hidden, transient=True) as shown:
        task = shown.add_task(what, total=None)

        def move(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield move
