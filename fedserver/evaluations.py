"""How long evaluators take, and how long the last evaluation is waited for."""

from fedcore.coordinator.records import Evaluated, Leased
from fedcore.typing import Seconds
from fedrun.journal.codec import Row

USUAL = 10  # times the longest evaluation the last one is waited for
FIRST: Seconds = 30.0  # where there was none before it, or
LINGERS = 3  # times ``timeouts.linger``


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

    def patience(self, linger: Seconds, most: Seconds) -> Seconds:
        """Returns how long after the end the last evaluation is waited for.

        Args:
            linger: how long the server waits for clients that do not know of the end.
            most: the limit, where evaluations are known to be long.
        """
        if self._longest is None:
            return max(FIRST, LINGERS * linger)
        return max(linger, min(most, USUAL * self._longest))
