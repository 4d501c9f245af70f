"""The progress of a simulation, and an estimate of the time that it still takes."""

import time
from collections.abc import Callable
from html import escape
from importlib import import_module
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedcore.coordinator.events import Evaluated
from fedcore.coordinator.settings import StopConfig
from fedcore.text import decimals
from fedcore.typing import Seconds
from fedrun import units
from fedrun.run import Run
from fedview.callbacks import Notice

INTERVAL = 0.1  # seconds between two drawings
STEPS = 10  # lines of a whole simulation, where nothing can be redrawn
LINES_EVERY: Seconds = 10.0  # at least one line in this time
FIRST_LINE: Seconds = 2.0


class Goal(NamedTuple):
    """The nearest end of a run."""

    share: float
    """The share of the way to the end that is done, at most 1."""
    words: str


class Display(Protocol):
    """A place where progress is shown."""

    def show(self, goal: Goal, measured: str) -> None:
        """Shows the progress, at most every ``INTERVAL`` seconds, and at the end."""

    def close(self) -> None:
        """Ends the display."""


class RunProgress:
    """Shows the progress of a run when it is called with an event.

    It draws a bar on a terminal and in a notebook, and prints lines elsewhere. The bar
    shows the way to the nearest end in ``stop``. If only a target ends the run, the
    length of the way is unknown.

    Args:
        stop: the conditions that end the run.
        console: the place where the progress is shown.
    """

    def __init__(self, stop: StopConfig, console: Console) -> None:
        self._stop = stop
        self._is_known = bool(stop.versions or stop.updates or stop.seconds)
        self._console = console
        self._display: Display | None = None
        self._latest: tuple[Run, Notice] | None = None
        self._shown = 0.0
        self._measured = ""

    def __call__(self, run: Run, event: Notice) -> None:
        """Takes an event into account, and draws if it is time to."""
        self._latest = run, event
        if isinstance(event, Evaluated):
            state = run.coordinator.state
            client = state.clients[event.cid]
            if client.role == "evaluator":
                self._measured = measured(event, self._stop)
            elif state.evaluated is None:  # there is no evaluator
                self._measured = f"{client.name}: {measured(event, self._stop)}"
        now = time.monotonic()
        if now - self._shown >= INTERVAL:
            self._shown = now
            self._show()

    def _show(self) -> None:
        if self._latest is None or self._display is None:
            return
        self._display.show(nearest(self._stop, *self._latest), self._measured)

    def __enter__(self) -> Self:
        """Opens the display."""
        if self._console.is_jupyter:
            self._display = Cell(in_notebook(), is_known=self._is_known)
        elif self._console.is_terminal:
            self._display = Bar(self._console, is_known=self._is_known)
        else:
            self._display = Lines(self._console)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Draws the progress a last time, and leaves it on the screen."""
        self._show()
        if self._display is not None:
            self._display.close()


class Bar:
    """A bar on a terminal."""

    def __init__(self, console: Console, *, is_known: bool) -> None:
        self._bar = Progress(
            BarColumn(),
            TextColumn("{task.fields[goal]}"),
            TextColumn("{task.fields[measured]}", markup=False),
            TimeRemainingColumn(),
            console=console,
        )
        total = 1.0 if is_known else None
        self._task = self._bar.add_task("", total=total, goal="", measured="")
        self._bar.start()

    def show(self, goal: Goal, measured: str) -> None:
        """Redraws the bar."""
        self._bar.update(
            self._task, completed=goal.share, goal=goal.words, measured=measured
        )

    def close(self) -> None:
        """Leaves the bar as it is."""
        self._bar.stop()


class Rest:
    """An estimate of how long a run will still take."""

    def __init__(self) -> None:
        self._first: tuple[Seconds, float] | None = None

    def begin(self, goal: Goal) -> None:
        """Starts the estimate at the first goal; the run may have begun earlier."""
        if self._first is None:
            self._first = time.monotonic(), goal.share

    def words(self, goal: Goal) -> str:
        """Returns the estimate, such as ``12 s left``; empty while it is unknown."""
        if self._first is None or not self._first[1] < goal.share < 1:
            return ""
        began, share = self._first
        gone = time.monotonic() - began
        left = round(gone * (1 - goal.share) / (goal.share - share))
        return f"{units.in_seconds(left)} left"


class Lines:
    """Lines in a pipe or a file, at each tenth of the way and every ten seconds."""

    def __init__(self, console: Console) -> None:
        self._console, self._rest = console, Rest()
        self._printed = time.monotonic() - LINES_EVERY + FIRST_LINE
        self._tenths = 0

    def show(self, goal: Goal, measured: str) -> None:
        """Prints a line if it is time for one."""
        self._rest.begin(goal)
        now, tenths = time.monotonic(), int(goal.share * STEPS)
        if tenths <= self._tenths and now - self._printed < LINES_EVERY:
            return
        self._tenths, self._printed = tenths, now
        line = _join(goal.words, measured, self._rest.words(goal))
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def close(self) -> None:
        """Does nothing."""


class Cell:
    """A bar below a notebook's cell, which is drawn again in its place."""

    def __init__(self, draw: Callable[[str], None], *, is_known: bool) -> None:
        """Calls ``draw`` with HTML, which replaces the HTML before."""
        self._draw, self._is_known, self._rest = draw, is_known, Rest()
        self._latest = Goal(0.0, "begins"), ""
        draw(self._html(""))

    def show(self, goal: Goal, measured: str) -> None:
        """Redraws the bar."""
        self._rest.begin(goal)
        self._latest = goal, measured
        self._draw(self._html(self._rest.words(goal)))

    def close(self) -> None:
        """Redraws the bar without the time left."""
        self._draw(self._html(""))

    def _html(self, left: str) -> str:
        goal, measured = self._latest
        value = f' value="{goal.share:.4f}"' if self._is_known else ""
        words = escape(_join(goal.words, measured, left))
        return f"<div><progress{value}></progress> {words}</div>"


def _join(*parts: str) -> str:
    return "  ".join(part for part in parts if part)


def in_notebook() -> Callable[[str], None]:
    """Returns a function that shows HTML below the running cell, and replaces it."""
    notebook = import_module("IPython.display")  # only notebooks have it
    handle = notebook.display(notebook.HTML(""), display_id=True)

    def draw(html: str) -> None:
        handle.update(notebook.HTML(html))

    return draw


def nearest(stop: StopConfig, run: Run, event: Notice) -> Goal:
    """Returns the nearest end of a run, and the run's progress towards it."""
    state = run.coordinator.state
    started = event.at if state.started is None else state.started
    updates, seconds = state.applied + state.count, event.at - started
    goals = []
    if stop.versions:
        words = f"{state.version:,}/{stop.versions:,} versions"
        goals.append(Goal(state.version / stop.versions, words))
    if stop.updates:
        words = f"{updates:,}/{stop.updates:,} updates"
        goals.append(Goal(updates / stop.updates, words))
    if stop.seconds:
        words = f"{units.in_seconds(seconds)} of {units.in_seconds(stop.seconds)}"
        goals.append(Goal(seconds / stop.seconds, words))
    if not goals:
        return Goal(0.0, f"version {state.version:,}")
    goal = max(goals)
    return goal._replace(share=min(goal.share, 1.0))


def measured(event: Evaluated, stop: StopConfig) -> str:
    """Returns metrics, their targets and the number of samples, for people.

    Example: ``accuracy 0.812 of 0.95  n 360``.
    """
    shown = [
        f"{name} {decimals(value, 3)}"
        + (f" of {stop.target[name]:g}" if name in stop.target else "")
        for name, value in event.values.items()
    ]
    return "  ".join([*shown, f"n {event.samples:,}"])
