"""What each client did when: from its tasks, its updates and its silences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from fedcore.coordinator.records import Admitted, Decided, Departed, Leased, Lost
from fedcore.protocol import Verdict
from fedcore.typing import Seconds
from fedrun.results import Results

MOST_SHOWN = 40  # clients in one plot


class Doing(StrEnum):
    """What a client was doing."""

    TRAINING = "training"
    FRUITLESS = "task without an update"
    AWAY = "away"
    IDLE = "idle"


class Stretch(NamedTuple):
    """It did one thing for a while."""

    start: Seconds
    end: Seconds
    doing: Doing


@dataclass(slots=True)
class Life:
    """One client's story."""

    name: str
    stretches: list[Stretch] = field(default_factory=list)
    tasks: int = 0
    fruitless: int = 0  # tasks that were followed by another one, not by an update
    losses: int = 0
    verdicts: dict[Verdict, int] = field(default_factory=dict)
    staleness: int = 0  # the sum over accepted updates
    weight: float = 0.0  # the same of λ
    _since: Seconds = 0.0
    _doing: Doing | None = None
    _leased: bool = False  # its last task has not led to an update yet
    _task: int | None = None  # the stretch of that task, if it has ended

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
        """From now on it does something else; None: it is not there at all."""
        if self._doing is not None and at > self._since:
            if self._doing is Doing.TRAINING:
                self._task = len(self.stretches)
            self.stretches.append(Stretch(self._since, at, self._doing))
        self._since, self._doing = at, doing

    def appear(self, at: Seconds) -> None:
        """The server hears of it."""
        if self._doing in (None, Doing.AWAY):
            self.turn(at, Doing.IDLE)

    def lease(self, at: Seconds) -> None:
        """It is given a task; the one before came to nothing if it is still open."""
        self.turn(at, Doing.IDLE)
        if self._leased:
            self.fruitless += 1
            if self._task is not None:
                task = self.stretches[self._task]
                self.stretches[self._task] = task._replace(doing=Doing.FRUITLESS)
        self.tasks += 1
        self._leased, self._task = True, None
        self.turn(at, Doing.TRAINING)

    def decide(self, record: Decided, at: Seconds) -> None:
        """Its update has a verdict."""
        self._leased = False
        self.verdicts[record.verdict] = self.verdicts.get(record.verdict, 0) + 1
        if record.verdict is Verdict.ACCEPTED:
            self.staleness += record.staleness
            self.weight += record.weight
        self.turn(at, Doing.IDLE)


def lives_of(results: Results) -> dict[str, Life]:
    """The lives of all trainers, by client id, in the order in which they came."""
    lives: dict[str, Life] = {}
    for record in results.records:
        if not isinstance(record, Admitted | Leased | Decided | Lost | Departed):
            continue
        if record.cid in results.evaluators:
            continue
        life = lives.get(record.cid)
        if life is None:
            name = results.names.get(record.cid, record.cid)
            life = lives[record.cid] = Life(name)
        at = record.at - results.started
        match record:
            case Leased(task="train"):
                life.lease(at)
            case Decided():
                life.decide(record, at)
            case Lost():
                life.losses += 1
                life.turn(at, Doing.AWAY)
            case Departed():
                life.turn(at, None)
            case _:
                life.appear(at)
    for life in lives.values():
        life.turn(results.seconds, None)
    return lives


def most_interesting(lives: Iterable[Life]) -> Sequence[Life]:
    """At most :data:`MOST_SHOWN` lives, those with most trouble, in their order.

    Trouble is a loss, a task without an update, or an update that was not accepted;
    among equals, those that did most come first.
    """
    lives = list(lives)
    if len(lives) <= MOST_SHOWN:
        return lives
    ranked = sorted(
        range(len(lives)), key=lambda i: (-lives[i].trouble, -lives[i].tasks, i)
    )
    return [lives[i] for i in sorted(ranked[:MOST_SHOWN])]


def selection_note(shown: int, all_of_them: int) -> str:
    """Says which clients are left out; empty if none is."""
    if shown == all_of_them:
        return ""
    return (
        f"{shown} of {all_of_them:,} clients are drawn: those with the most losses, "
        "tasks without an update and updates that were not accepted."
    )
