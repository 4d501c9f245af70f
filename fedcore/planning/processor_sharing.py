"""Processor sharing: jobs in service share a resource equally, up to a rate of each.

An egalitarian processor-sharing queue (Kleinrock, "Time-shared Systems: A Theoretical
Treatment", JACM 14(2), 1967), which is also how TCP connections of equal round-trip
times share a link. With n jobs each of them is served at the rate min(r, C / n). All
rates are equal, so that one virtual clock, the service that each job has got, orders
the departures: a job leaves when the clock has gone on by its amount. An arrival or a
departure costs O(log n), and nothing is approximated.
"""

import heapq
import math

from fedcore.errors import ConfigError
from fedcore.typing import Seconds


class ProcessorSharing:
    """A shared resource: its jobs, and the work that it has done."""

    __slots__ = (
        "_at",
        "_clock",
        "_jobs",
        "_number",
        "busy",
        "capacity",
        "rate",
        "work",
    )

    def __init__(self, capacity: float, rate: float = math.inf) -> None:
        """An idle resource.

        Args:
            capacity: C, the amount that it serves in a second.
            rate: r, the most that one job gets in a second.

        Raises:
            ConfigError: one of them is not above 0.
        """
        if not (capacity > 0 and rate > 0):
            raise ConfigError(
                f"a shared resource: expected a capacity and a rate above 0, got "
                f"{capacity:g} and {rate:g}"
            )
        self.capacity, self.rate = capacity, rate
        self.work = 0.0
        """The amount that it has served so far."""
        self.busy: Seconds = 0.0
        """How long at least one job was in service."""
        self._jobs: list[tuple[float, int, int]] = []
        self._clock = 0.0  # the amount that a job in service since 0 would have got
        self._at: Seconds = 0.0
        self._number = 0  # breaks ties in the order of arrival

    def __len__(self) -> int:
        """Returns the number of jobs in service."""
        return len(self._jobs)

    @property
    def is_free(self) -> bool:
        """Whether every amount is served at once."""
        return math.isinf(self.capacity) and math.isinf(self.rate)

    def advance(self, now: Seconds) -> None:
        """Serves all jobs until ``now``."""
        passed, jobs = now - self._at, len(self._jobs)
        self._at = now
        if not jobs:
            self._clock = 0.0  # keeps the clock small, and with it its rounding
            return
        gained = passed * min(self.rate, self.capacity / jobs)
        self._clock += gained
        self.work += gained * jobs
        self.busy += passed

    def arrive(self, now: Seconds, amount: float, job: int) -> None:
        """Takes a job; ``amount`` is above 0, and ``now`` no earlier than before."""
        self.advance(now)
        self._number += 1
        heapq.heappush(self._jobs, (self._clock + amount, self._number, job))

    def next_departure(self) -> Seconds:
        """Returns when the next job leaves if none arrives; infinite: never."""
        jobs = self._jobs
        if not jobs:
            return math.inf
        speed = min(self.rate, self.capacity / len(jobs))
        return self._at + max(0.0, jobs[0][0] - self._clock) / speed

    def depart(self, now: Seconds) -> int:
        """Serves until ``now``, the next departure, and returns the job that leaves."""
        self.advance(now)
        return heapq.heappop(self._jobs)[2]
