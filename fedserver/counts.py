"""Counts of a run that follow from its records, so that a restart goes on with them."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from fedcore.coordinator.records import (
    Decided,
    Declined,
    Evicted,
    Failed,
    Freed,
    Leased,
    Lost,
    Paused,
    Readmitted,
    Skipped,
    SnapshotOrdered,
    Stepped,
    Unpaused,
    Unproved,
)
from fedcore.protocol import Verdict
from fedcore.typing import Seconds
from fedrun.journal.codec import Row

STALENESS_BOUNDS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""The upper bounds of the bins of staleness, in versions; one more bin has no bound."""
ACTS: dict[type[Row], str] = {
    Paused: "pause",
    Unpaused: "resume",
    Evicted: "evict",
    Readmitted: "readmit",
    Freed: "free",
    SnapshotOrdered: "snapshot",
}
"""The acts of an operator, as the commands are called."""


# What such an update says of its version may be nonsense.
_MEANINGLESS = (Verdict.REJECTED_MALFORMED, Verdict.DISCARDED)


def _bins() -> list[int]:
    return [0] * (len(STALENESS_BOUNDS) + 1)


@dataclass
class Counts:
    """How often what happened; one thread writes them."""

    records: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    staleness_T: list[int] = field(default_factory=_bins)
    """Updates in each bin of staleness (T,), without malformed and discarded ones."""
    staleness_sum: int = 0
    accepted_at: Seconds = 0.0
    versions: Counter[str] = field(default_factory=Counter)
    """By the reason for which they were made."""
    version_at: Seconds = 0.0
    """When the newest version was made; for version 0, when the run began."""
    tasks: Counter[str] = field(default_factory=Counter)
    declined: int = 0
    failed: int = 0
    skipped: int = 0
    lost: int = 0
    unproved: int = 0
    acts: Counter[str] = field(default_factory=Counter)

    def observe(self, record: Row) -> None:
        """Counts one record."""
        self.records += 1
        self.version_at = self.version_at or record.at
        match record:
            case Decided():
                self.verdicts[record.verdict.value] += 1
                late = record.staleness
                if record.verdict not in _MEANINGLESS:
                    self.staleness_T[bisect_left(STALENESS_BOUNDS, late)] += 1
                    self.staleness_sum += late
                if record.verdict is Verdict.ACCEPTED:
                    self.accepted_at = record.at
            case Stepped():
                self.versions[record.reason] += 1
                self.version_at = record.at
            case Leased():
                self.tasks[record.task] += 1
            case Declined():
                self.declined += 1
            case Failed():
                self.failed += 1
            case Skipped():
                self.skipped += record.count
            case Lost():
                self.lost += 1
            case Unproved():
                self.unproved += record.count
            case _ if act := ACTS.get(type(record)):
                self.acts[act] += 1
            case _:
                pass
