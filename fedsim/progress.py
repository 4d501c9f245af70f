"""How far a simulation is, and how long it will still take."""

import time
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedcore.coordinator.events import Event, ModelMeasured
from fedcore.coordinator.settings import StopConfig
from fedrun.report import units
from fedrun.run import Run

INTERVAL = 0.1  # seconds between two pictures; an event alone is no reason for one


class Goal(NamedTuple):
    """The end that is nearest."""

    share: float
    """Of the way there that is done, at most 1."""
    words: str


class RunProgress:
    """A bar on a terminal; it is called with each event, and mostly does nothing.

    Its length is that of the end in ``stop`` that is nearest. When a target is
    reached nobody knows, so that with no other end the bar only moves.
    """

    def __init__(self, stop: StopConfig, console: Console) -> None:
        self._stop = stop
        self._bar = Progress(
            BarColumn(),
            TextColumn("{task.fields[goal]}"),
            TextColumn("{task.fields[measured]}", markup=False),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        is_known = bool(stop.versions or stop.updates or stop.seconds)
        self._task = self._bar.add_task(
            "", total=1.0 if is_known else None, goal="", measured=""
        )
        self._latest: tuple[Run, Event] | None = None
        self._shown = 0.0
        self._measured = ""

    def __call__(self, run: Run, event: Event) -> None:
        """Something has happened."""
        self._latest = run, event
        if isinstance(event, ModelMeasured):
            self._measured = measured(event, self._stop)
        now = time.monotonic()
        if now - self._shown >= INTERVAL:
            self._shown = now
            self._show()

    def _show(self) -> None:
        if self._latest is None:
            return
        run, event = self._latest
        goal = nearest(self._stop, run, event)
        self._bar.update(
            self._task, completed=goal.share, goal=goal.words, measured=self._measured
        )

    def __enter__(self) -> Self:
        """The bar appears."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The last picture stays."""
        self._show()
        self._bar.stop()


def nearest(stop: StopConfig, run: Run, event: Event) -> Goal:
    """Which end of a run is nearest, and how far it is."""
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


def measured(event: ModelMeasured, stop: StopConfig) -> str:
    """Metrics, and what they are to be: ``accuracy 0.812 of 0.95``."""
    return "  ".join(
        f"{name} {value:.3f}"
        + (f" of {stop.target[name]:g}" if name in stop.target else "")
        for name, value in event.values.items()
    )
