"""Reads the activities of a run's clients from its journal.

The server sees when a task is leased and when its update arrives, so transfers and
computing are one number. A client leaves when it has been silent for ``timeouts.lost``,
and comes back when it asks again. A client that asks for a new task without having
delivered the last one was away since that lease. The latency is the smallest time
between a verdict and the next lease. A client that never finished its first task needs
at least the time until the end of the record for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median_low

from fedcore.coordinator.events import (
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
from fedsim.traces.format import MESSAGES, ClientTrace, Segment, State
from fedsim.traces.write import DIGITS
from fedview.results import Results


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The recorded activities of the trainers of a run."""

    clients: list[ClientTrace]
    finished: int  # tasks whose update arrived
    unfinished: int  # tasks that were never delivered, without those at the end
    absences: list[Seconds]  # absences that the server noticed and that ended


def read_clients(results: Results, until: Seconds = math.inf) -> Recording:
    """Reads the activities of the trainers of a run, in the order of their index.

    Args:
        results: the run.
        until: later records are ignored; seconds since the beginning of the run.

    Raises:
        ConfigError: no client was enrolled.
    """
    config = parse_config(results.configured.config)
    timelines: dict[str, _Timeline] = {}
    ended = False
    for record in results.records:
        at = record.at - results.started
        if at > until:
            continue
        if isinstance(record, Closed | RunResumed):
            ended = isinstance(record, Closed)
        if isinstance(record, Enrolled) and record.role == "trainer":
            name = results.names[record.cid]
            came = timelines.setdefault(record.cid, _Timeline(name, at))
            came.index, came.count = record.index, record.count
        timeline = timelines.get(getattr(record, "cid", ""))
        if timeline is None:
            continue
        match record:
            case Leased(task="train"):
                timeline.leased(at)
            case Decided():
                timeline.decided(at, record.steps)
            case Failed():
                timeline.failed(at)
            case Lost() if not ended:  # all clients leave at the end
                timeline.lost(at, config.timeouts.lost)
            case Departed():
                timeline.lost(at, 0.0)
    if not timelines:
        raise ConfigError(
            f"{results.folder} has no clients, so there is nothing to trace"
        )
    gaps = [gap for timeline in timelines.values() for gap in timeline.gaps]
    shared = min(gaps, default=0.0) if config.algorithm.synchronous else None
    ordered = sorted(timelines.values(), key=lambda timeline: timeline.index or 0)
    if all(timeline.count == 1 for timeline in ordered):
        for timeline in ordered:  # each has data of its own
            timeline.index = timeline.count = None
    for timeline in ordered:
        timeline.end(min(results.seconds, until), _usual_steps(ordered))
    return Recording(
        clients=[timeline.trace(shared) for timeline in ordered],
        finished=sum(timeline.finished for timeline in ordered),
        unfinished=sum(timeline.unfinished for timeline in ordered),
        absences=[
            seconds
            for timeline in ordered
            for seconds in timeline.absences
            if seconds > 0
        ],
    )


def _usual_steps(timelines: Sequence["_Timeline"]) -> int:
    """Returns the median number of steps of all tasks."""
    steps = [
        s.steps
        for timeline in timelines
        for s in timeline.segments
        if s.state == "task"
    ]
    return median_low(steps) if steps else 1


@dataclass(slots=True)
class _Timeline:
    """The timeline of a client, up to the last record that was read."""

    name: str
    came: Seconds
    index: int | None = None
    count: int | None = None
    segments: list[Segment] = field(default_factory=list)
    gaps: list[Seconds] = field(default_factory=list)  # times from verdicts to leases
    absences: list[Seconds] = field(default_factory=list)
    finished: int = 0
    unfinished: int = 0
    _cursor: Seconds = 0.0  # the end of the last segment
    _heard: Seconds = 0.0
    _lease: Seconds | None = None
    _decided: Seconds | None = None  # the last verdict, if no lease followed
    _gone: Seconds | None = None
    _broken: bool = False  # the client was lost during this task

    def __post_init__(self) -> None:
        self._fill(self.came, "away")
        self._heard = self.came

    def leased(self, at: Seconds) -> None:
        """Records that the client received a task."""
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
        """Records that the client's update arrived."""
        self._hear(at)
        if self._lease is not None:
            self.finished += 1
            if not self._broken:
                self._fill(at, "task", max(1, steps))
        self._lease, self._decided = None, at

    def failed(self, at: Seconds) -> None:
        """Records that the user's code failed in the client's task."""
        self._hear(at)
        self._lease = self._decided = None

    def lost(self, at: Seconds, silent: Seconds) -> None:
        """Records that the client left, after it had been silent for this time."""
        if self._gone is None:
            self._gone = max(self._heard, self._cursor, at - silent)
            self._fill(self._gone, "there")
            self._broken, self._decided = True, None

    def end(self, at: Seconds, usual_steps: int) -> None:
        """Ends the timeline; a first task counts ``usual_steps`` steps."""
        if self._lease is None:
            return
        if self._gone is not None:
            self.unfinished += 1
        elif not any(segment.state == "task" for segment in self.segments):
            # Its first task takes at least this long.
            self._fill(at, "task", usual_steps)

    def trace(self, latency: Seconds | None) -> ClientTrace:
        """Returns the timeline; without a ``latency``, with the shortest gap's."""
        state: State = "there" if self._gone is None else "away"
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

    def _fill(self, until: Seconds, state: State, steps: int = 0) -> None:
        until = round(until, DIGITS)
        if until <= self._cursor:
            return
        last = self.segments[-1] if self.segments else None
        if last is not None and last.state == state != "task":
            self.segments[-1] = last._replace(end=until)
        else:
            self.segments.append(Segment(self._cursor, until, state, steps))
        self._cursor = until
