"""What the demo shows while it runs: a picture on a terminal, lines elsewhere."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.demo.story import CLIENTS, VERSIONS

EVERY = 5.0  # seconds between two lines of progress
QUIET = 120.0  # seconds without any event, on the slowest machine
Events = Sequence[dict[str, Any]]


class Picture:
    """Draws the federation again and again, within its ``with`` block."""

    def __init__(self, console: Console) -> None:
        """``console`` is a terminal."""
        self._live = Live(console=console, refresh_per_second=4)

    def __enter__(self) -> Self:
        """Starts to draw, four times a second."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the last picture on the screen."""
        self._live.stop()

    def show(self, events: Events, diary: Sequence[str], nbytes: int) -> None:
        """Draws the federation as it is now."""
        self._live.update(picture(events, diary, nbytes))


class Lines:
    """Writes what happens, and now and then how far it is."""

    def __init__(
        self, console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``clock`` tells seconds."""
        self._console, self._clock = console, clock
        self._told = 0  # lines of the diary
        self._due = clock()

    def __enter__(self) -> Self:
        """Returns itself; lines need no preparation."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the lines as they are; an error passes on."""

    def show(self, events: Events, diary: Sequence[str], nbytes: int) -> None:
        """Writes what is new in the diary, and the progress every few seconds."""
        fresh, self._told = diary[self._told :], len(diary)
        lines = list(fresh)
        if self._clock() >= self._due:
            self._due = self._clock() + EVERY
            lines.append(f"         {', '.join(progress(events, nbytes))}")
        if lines:
            text = "\n".join(lines)
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Watch:
    """Notices that nothing happens any more; how long it takes does not matter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` tells seconds."""
        self._clock, self._count, self._since = clock, -1, clock()

    def is_stuck(self, count: int) -> bool:
        """Returns whether the number of events has been the same for too long."""
        if count != self._count:
            self._count, self._since = count, self._clock()
        return self._clock() - self._since > QUIET


def progress(events: Events, nbytes: int) -> list[str]:
    """Returns how far the federation is, what it has learnt, and what it has sent."""
    steps = sum(event["event"] == "stepped" for event in events)
    measured = [event for event in events if event["event"] == "evaluated"]
    learnt = "not evaluated yet"
    if measured:
        learnt = f"accuracy {measured[-1]['values']['accuracy']:.3f}"
    sent = f"{nbytes / 1000:.0f} kB on the network"
    return [f"version {steps} of {VERSIONS}", learnt, sent]


def picture(events: Events, diary: Sequence[str], nbytes: int) -> Panel:
    """Draws the federation as it is now."""
    version, *rest = progress(events, nbytes)
    steps = sum(event["event"] == "stepped" for event in events)
    bar = ProgressBar(total=VERSIONS, completed=steps, width=30)
    top = Table.grid(padding=(0, 2))
    top.add_row(version, bar, *rest)
    clients = Table(box=None, header_style="dim")
    for column in ("client", "does", "updates", "late by", "weight"):
        clients.add_column(column)
    for row in client_rows(events):
        clients.add_row(*row)
    written = Text("\n".join(diary[-8:]), style="dim")
    return Panel(Group(top, clients, written), title="a federation that loses nothing")


def client_rows(events: Events) -> list[list[str]]:
    """Each client's doings, as the server tells them."""
    rows = {f"client-{i}": ["joining", "0", "", ""] for i in range(CLIENTS)}
    for event in events:
        row = rows.get(event.get("client", ""))
        if row is None:
            continue
        match event["event"]:
            case "leased":
                row[0] = "[green]trains[/]"
            case "lost":
                row[0] = "[red]lost[/]"
            case "decided":
                row[0], row[1] = "[dim]delivered[/]", str(int(row[1]) + 1)
                row[2], row[3] = str(event["staleness"]), f"{event['weight']:.2f}"
    return [[name, *row] for name, row in rows.items()]
