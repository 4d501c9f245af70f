"""The timelines of clients, from their tasks, updates and silences."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from fedcore.coordinator.events import Decided, Failed, Leased, Lost, ServerStarted
from fedcore.coordinator.settings import TimeoutsConfig
from fedcore.protocol import Verdict
from fedcore.typing import Seconds
from fedview.report.downsample import Floats
from fedview.report.history import downtimes
from fedview.results import Results
from fedview.results.coverage import Activities, Activity

MOST_SHOWN = 40  # clients in one plot


class Doing(StrEnum):
    """The state of a client."""

    TRAINING = "training"
    FRUITLESS = "task without an update"
    AWAY = "away"
    IDLE = "idle"
    ABSENT = "not there"  # it has not joined yet, or has left; no stretch of it is kept


class Stretch(NamedTuple):
    """A time in which a client stayed in one state."""

    start: Seconds
    end: Seconds
    doing: Doing


@dataclass(slots=True)
class ClientTimeline:
    """The timeline of one client: its stretches, tasks and verdicts."""

    name: str
    stretches: list[Stretch] = field(default_factory=list)
    tasks: int = 0
    fruitless: int = 0  # tasks that a failure, another task or nothing followed
    losses: int = 0
    verdicts: dict[Verdict, int] = field(default_factory=dict)
    staleness: int = 0  # the sum over accepted updates
    weight: float = 0.0  # the same of λ
    _since: Seconds = 0.0
    _doing: Doing | None = None
    _leased: bool = False  # its last task has not led to an update yet
    _task: int | None = None  # the stretch of that task, if it has ended
    _unheard: Seconds | None = None  # since then no server heard of it

    @property
    def accepted(self) -> int:
        """Updates that counted."""
        return self.verdicts.get(Verdict.ACCEPTED, 0)

    @property
    def updates(self) -> int:
        """Updates with any verdict."""
        return sum(self.verdicts.values())

    @property
    def trouble(self) -> int:
        """Losses, tasks without an update, and updates that were not accepted."""
        return self.losses + self.fruitless + self.updates - self.accepted

    def turn(self, at: Seconds, doing: Doing | None) -> None:
        """Begins a stretch in another state; with None, the client is not there."""
        if self._doing is not None and at > self._since:
            if self._doing is Doing.TRAINING:
                self._task = len(self.stretches)
            self.stretches.append(Stretch(self._since, at, self._doing))
        self._since, self._doing = at, doing

    def appear(self, at: Seconds) -> None:
        """Notes that the server heard of the client."""
        self._hear()
        if self._doing in (None, Doing.AWAY):
            self.turn(at, Doing.IDLE)

    def lease(self, at: Seconds) -> None:
        """Notes that the client got a task; an open one before had no result."""
        self._hear()
        self.turn(at, Doing.IDLE)
        self._give_up()
        self.tasks += 1
        self._leased, self._task = True, None
        self.turn(at, Doing.TRAINING)

    def decide(self, record: Decided, at: Seconds) -> None:
        """Notes that an update of the client got a verdict."""
        if self._leased and self._doing is Doing.TRAINING:
            self._unheard = None  # it trained while no server ran
        self._hear()
        self._leased = False
        self.verdicts[record.verdict] = self.verdicts.get(record.verdict, 0) + 1
        if record.verdict is Verdict.ACCEPTED:
            self.staleness += record.staleness
            self.weight += record.weight
        self.turn(at, Doing.IDLE)

    def fail(self, at: Seconds) -> None:
        """Notes that the client's code raised; its task has no result."""
        self._hear()
        self.turn(at, Doing.IDLE)
        self._give_up()

    def lose(self, since: Seconds) -> None:
        """Notes that the client has been away since then."""
        self.losses += 1
        self._hear()
        if self._doing is not Doing.AWAY:
            self.turn(max(since, self._since), Doing.AWAY)

    def leave(self, at: Seconds) -> None:
        """Notes that the client takes part no more."""
        if self._doing is not None:
            self._hear()
            self.turn(at, Doing.IDLE)
            self._give_up()
            self.turn(at, None)

    def interrupt(self, since: Seconds) -> None:
        """Notes that no server ran since then."""
        if self._doing is not None and self._unheard is None:
            self._unheard = since

    def end(self, at: Seconds) -> None:
        """Ends the timeline."""
        if self._unheard is not None and self._doing is Doing.IDLE:
            self.turn(max(self._unheard, self._since), Doing.AWAY)
        self._hear()
        if self._doing is Doing.AWAY:
            self._give_up()
        self.turn(at, None)

    def _hear(self) -> None:
        """Counts the client as away since the server stopped, unless it was idle."""
        if self._unheard is not None and self._doing is Doing.TRAINING:
            self.turn(max(self._unheard, self._since), Doing.AWAY)
        self._unheard = None

    def _give_up(self) -> None:
        """Counts the open task, if there is one, as fruitless."""
        self.fruitless += self._leased
        if self._leased and self._task is not None:
            task = self.stretches[self._task]
            self.stretches[self._task] = task._replace(doing=Doing.FRUITLESS)
        self._leased = False


def timelines_of(results: Results) -> dict[str, ClientTimeline]:
    """Returns the timelines of all trainers, by client id, in the order of joining."""
    timelines: dict[str, ClientTimeline] = {}
    activities, gaps = Activities(), iter(downtimes(results))
    served, silence = False, silence_until_lost(results)
    for record in results.records:
        if isinstance(record, ServerStarted):
            gap, served = next(gaps) if served else None, True
            if gap is not None and gap.how != "ended":
                for known in timelines.values():
                    known.interrupt(gap.start)
            continue
        at = record.at - results.started
        for cid in activities.observe(record):
            if cid in results.evaluators:
                continue
            timeline = timelines.get(cid)
            if timeline is None:
                name = results.names.get(cid, cid)
                timeline = timelines[cid] = ClientTimeline(name)
            activity = activities.now[cid]
            match record:
                case Decided():
                    timeline.decide(record, at)
                case _ if activity.is_gone:
                    timeline.leave(at)
                case Leased(task="train"):
                    timeline.lease(at)
                case Failed():
                    timeline.fail(at)
                case Lost():
                    timeline.lose(at - silence)
                case _ if activity is not Activity.AWAY:
                    timeline.appear(at)
    for timeline in timelines.values():
        timeline.end(results.seconds)
    return timelines


def silence_until_lost(results: Results) -> Seconds:
    """Returns after how many seconds of silence a client counted as lost."""
    return float(results.setting("timeouts", "lost", default=TimeoutsConfig().lost))


class States(NamedTuple):
    """The number of clients in each state, at moments that are evenly spread."""

    seconds: Floats
    counts: dict[Doing, Floats]  # their sum is the number of clients, everywhere


def states(
    timelines: Collection[ClientTimeline], seconds: Seconds, moments: int = 400
) -> States:
    """Counts the clients in each state over time."""
    times = np.linspace(0.0, seconds, moments)
    counts = {}
    for doing in Doing:
        ends = [
            (s.start, s.end) for x in timelines for s in x.stretches if s.doing is doing
        ]
        starts, stops = np.array(ends, np.float64).reshape(-1, 2).T
        begun = np.searchsorted(np.sort(starts), times, side="right")
        # At the very end, what was done last is still done.
        over = np.searchsorted(np.sort(stops[stops < seconds]), times, side="right")
        counts[doing] = (begun - over).astype(np.float64)
    counts[Doing.ABSENT] = len(timelines) - np.sum(list(counts.values()), axis=0)
    return States(times, counts)


def most_interesting(timelines: Iterable[ClientTimeline]) -> Sequence[ClientTimeline]:
    """Returns at most :data:`MOST_SHOWN` timelines, those with most trouble.

    Trouble is a loss, a task without an update, or an update that was not accepted;
    among equals, those that did most come first.
    """
    timelines = list(timelines)
    if len(timelines) <= MOST_SHOWN:
        return timelines
    ranked = sorted(
        range(len(timelines)),
        key=lambda i: (-timelines[i].trouble, -timelines[i].tasks, i),
    )
    return [timelines[i] for i in sorted(ranked[:MOST_SHOWN])]


def selection_note(shown: int, all_of_them: int) -> str:
    """Says how the drawn clients were chosen; empty if all are drawn."""
    if shown == all_of_them:
        return ""
    return (
        f"{shown} of {all_of_them:,} clients are drawn: those with the most losses, "
        "tasks without an update and updates that were not accepted."
    )
