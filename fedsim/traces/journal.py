"""What the clients of a recorded run did, as its journal tells it.

The server sees a task from its lease to the arrival of its update, and nothing of what
is inside: transfers and computing are one number. It sees a client go when it has been
silent for ``timeouts.lost``, and come when it asks again; of a shorter absence it sees
only that a client wants a new task without having delivered the last one, so that it
was as good as away since its lease. The smallest time between a verdict and the next
lease is what messages take. A client whose first task was still not done at the end of
the record is as slow as that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median_low

from fedcore.coordinator.records import (
    Closed,
    Decided,
    Departed,
    Enrolled,
    Failed,
    Leased,
    Lost,
    RunResumed,
)
from fedcore.errors import ConfigError
from fedcore.typing import Seconds
from fedrun.config import parse_config
from fedrun.results import Results
from fedsim.traces.format import MESSAGES, ClientTrace, Segment, What
from fedsim.traces.write import DIGITS


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a journal holds of its trainers."""

    clients: list[ClientTrace]
    finished: int  # tasks whose update arrived
    unfinished: int  # tasks that were begun and never delivered, and not the last ones
    absences: list[Seconds]  # that the server noticed, and which ended


def recorded_clients(results: Results, until: Seconds = math.inf) -> Recording:
    """The trainers of a run, in the order of their places.

    Args:
        results: of the run.
        until: what came later, in seconds from its beginning, is not looked at.

    Raises:
        ConfigError: no client was enrolled.
    """
    config = parse_config(results.configured.config)
    lives: dict[str, _Life] = {}
    ended = False
    for record in results.records:
        at = record.at - results.started
        if at > until:
            continue
        if isinstance(record, Closed | RunResumed):
            ended = isinstance(record, Closed)
        if isinstance(record, Enrolled) and record.role == "trainer":
            name = results.names[record.cid]
            came = lives.setdefault(record.cid, _Life(name, at))
            came.index, came.count = record.index, record.count
        life = lives.get(getattr(record, "cid", ""))
        if life is None:
            continue
        match record:
            case Leased(task="train"):
                life.leased(at)
            case Decided():
                life.decided(at, record.steps)
            case Failed():
                life.failed(at)
            case Lost() if not ended:  # everybody goes at the end
                life.lost(at, config.timeouts.lost)
            case Departed():
                life.lost(at, 0.0)
    if not lives:
        raise ConfigError(
            f"{results.folder} has no clients, so there is nothing to trace"
        )
    gaps = [gap for life in lives.values() for gap in life.gaps]
    shared = min(gaps, default=0.0) if config.algorithm.synchronous else None
    ordered = sorted(lives.values(), key=lambda life: life.index or 0)
    if all(life.count == 1 for life in ordered):
        for life in ordered:  # each has data of its own, which the server never sees
            life.index = life.count = None
    for life in ordered:
        life.end(min(results.seconds, until), _usual_steps(ordered))
    return Recording(
        clients=[life.trace(shared) for life in ordered],
        finished=sum(life.finished for life in ordered),
        unfinished=sum(life.unfinished for life in ordered),
        absences=[seconds for life in ordered for seconds in life.absences],
    )


def _usual_steps(lives: Sequence["_Life"]) -> int:
    """The median number of steps of all tasks."""
    steps = [s.steps for life in lives for s in life.segments if s.state == "task"]
    return median_low(steps) if steps else 1


@dataclass(slots=True)
class _Life:
    """One client, as far as its records have been read."""

    name: str
    came: Seconds
    index: int | None = None
    count: int | None = None
    segments: list[Segment] = field(default_factory=list)
    gaps: list[Seconds] = field(
        default_factory=list
    )  # from a verdict to the next lease
    absences: list[Seconds] = field(default_factory=list)
    finished: int = 0
    unfinished: int = 0
    _cursor: Seconds = 0.0  # up to when there are segments
    _heard: Seconds = 0.0
    _lease: Seconds | None = None
    _decided: Seconds | None = None  # and since then no lease
    _gone: Seconds | None = None
    _broken: bool = False  # it was lost in the midst of this task

    def __post_init__(self) -> None:
        self._fill(self.came, "away")
        self._heard = self.came

    def leased(self, at: Seconds) -> None:
        """It was given a task."""
        if self._lease is not None:
            self.unfinished += 1
            if self._gone is None:
                self._fill(at, "away")
        self._hear(at)
        if self._decided is not None:
            self.gaps.append(at - self._decided)
        self._fill(at, "there")
        self._lease, self._decided, self._broken = at, None, False

    def decided(self, at: Seconds, steps: int) -> None:
        """Its update arrived."""
        self._hear(at)
        if self._lease is not None:
            self.finished += 1
            if not self._broken:
                self._fill(at, "task", max(1, steps))
        self._lease, self._decided = None, at

    def failed(self, at: Seconds) -> None:
        """Its task came to nothing, for a reason of the user's code."""
        self._hear(at)
        self._lease = self._decided = None

    def lost(self, at: Seconds, silent: Seconds) -> None:
        """It was gone, and had been silent for so long."""
        if self._gone is None:
            self._gone = max(self._heard, self._cursor, at - silent)
            self._fill(self._gone, "there")
            self._broken, self._decided = True, None

    def end(self, at: Seconds, usual_steps: int) -> None:
        """Nothing more is known of it."""
        if self._lease is None:
            return
        if self._gone is not None:
            self.unfinished += 1
        elif not any(segment.state == "task" for segment in self.segments):
            # So slow that its first task was never done: it took this long at least.
            self._fill(at, "task", usual_steps)

    def trace(self, latency: Seconds | None) -> ClientTrace:
        """All of it; ``latency``: of messages, where its own delays do not tell."""
        state: What = "there" if self._gone is None else "away"
        segments = [*self.segments]
        if segments and segments[-1].state == state:
            segments[-1] = segments[-1]._replace(end=math.inf)
        else:
            segments.append(Segment(self._cursor, math.inf, state))
        if latency is None:
            latency = min(self.gaps, default=0.0)
        tasks = [s.end - s.start for s in segments if s.state == "task"]
        shortest = min(tasks, default=math.inf)
        latency = round(max(0.0, min(latency, shortest / (MESSAGES + 1))), DIGITS)
        return ClientTrace(
            self.name, segments, latency=latency, index=self.index, count=self.count
        )

    def _hear(self, at: Seconds) -> None:
        if self._gone is not None:
            self.absences.append(at - self._gone)
            self._fill(at, "away")
            self._gone = None
        self._heard = at

    def _fill(self, until: Seconds, state: What, steps: int = 0) -> None:
        until = round(until, DIGITS)
        if until <= self._cursor:
            return
        last = self.segments[-1] if self.segments else None
        if last is not None and last.state == state != "task":
            self.segments[-1] = last._replace(end=until)
        else:
            self.segments.append(Segment(self._cursor, until, state, steps))
        self._cursor = until
