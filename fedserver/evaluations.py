"""How long evaluators take, and how long the last evaluation is waited for."""

from fedcore.coordinator.records import Evaluated, Leased
from fedcore.typing import Seconds
from fedrun.journal.codec import Row

LEAST: Seconds = 30.0  # to wait for the last evaluation, or
USUAL = 10  # times the longest one before it


class EvaluationTimes:
    """The longest evaluation so far, by the records of tasks and reports."""

    def __init__(self) -> None:
        self._began: dict[str, Seconds] = {}
        self._longest: Seconds | None = None

    def observe(self, record: Row) -> None:
        """Takes note of a durable record."""
        match record:
            case Leased(task="evaluate"):
                self._began[record.cid] = record.at
            case Evaluated() if began := self._began.pop(record.cid, None):
                self._longest = max(self._longest or 0.0, record.at - began)

    def patience(self, most: Seconds) -> Seconds:
        """Returns how long the last one is waited for: ``most`` if none is known."""
        if self._longest is None:
            return most
        return min(most, max(LEAST, USUAL * self._longest))
