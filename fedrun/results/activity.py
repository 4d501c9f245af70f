"""What the clients of a run do, from its records: the one reading for every view."""

from enum import StrEnum

from fedcore.coordinator.records import (
    Decided,
    Declined,
    Departed,
    Enrolled,
    Evaluated,
    Evicted,
    Failed,
    Freed,
    Leased,
    Lost,
    Readmitted,
)
from fedrun.journal.codec import Row


class Activity(StrEnum):
    """What a client does."""

    IDLE = "idle"
    TRAINS = "trains"
    EVALUATES = "evaluates"
    RESTS = "rests"  # its task was refused before it was computed
    AWAY = "away"  # it has to be heard of first
    LOST = "lost"
    FAILED = "failed"
    LEFT = "left"
    EVICTED = "evicted"

    @property
    def is_gone(self) -> bool:
        """Whether the client takes part no more."""
        return self in (Activity.LEFT, Activity.EVICTED)


class Activities:
    """What each client does; ``observe`` takes the records in their order."""

    def __init__(self) -> None:
        self.now: dict[str, Activity] = {}  # by the clients' ids
        self._names: dict[str, str] = {}  # under which an operator may act on them

    def observe(self, record: Row) -> list[str]:
        """Takes note of a record; returns the ids of the clients that it concerns."""
        match record:
            case Evicted() | Readmitted() | Freed():
                named = [c for c, name in self._names.items() if name == record.name]
                return [cid for cid in named if self._act(cid, record)]
            case Enrolled():
                self._names[record.cid] = record.name
                before = self.now.get(record.cid, Activity.AWAY)
                returns = before in (Activity.AWAY, Activity.LOST)
                self.now[record.cid] = Activity.IDLE if returns else before
                return [record.cid]
        cid = getattr(record, "cid", None)
        if cid is None:
            return []
        before = self.now.get(cid, Activity.IDLE)
        self.now[cid] = before if before.is_gone else _after(record, before)
        return [cid]

    def _act(self, cid: str, act: Evicted | Readmitted | Freed) -> bool:
        """Carries out an operator's act; returns whether it changes what one does."""
        before = self.now[cid]
        match act:
            case Evicted() if not before.is_gone:
                self.now[cid] = Activity.EVICTED
            case Readmitted() if before is Activity.EVICTED:
                self.now[cid] = Activity.AWAY
            case Freed() if before is Activity.EVICTED:
                del self._names[cid]  # it stays out, whoever has the name since
        return self.now[cid] is not before


def _after(record: Row, before: Activity) -> Activity:
    """Returns what a client does after a record of its own."""
    match record:
        case Leased(task="train"):
            return Activity.TRAINS
        case Leased():
            return Activity.EVALUATES
        case Declined():
            return Activity.RESTS
        case Decided():
            return Activity.IDLE
        case Evaluated() if before is Activity.EVALUATES:
            return Activity.IDLE
        case Lost():
            return Activity.LOST
        case Failed():
            return Activity.FAILED
        case Departed():
            return Activity.LEFT
        case _:
            return before
