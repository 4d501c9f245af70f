"""Virtual time: a queue of events, ordered by time and then by scheduling."""

import heapq
import itertools
import math
from collections.abc import Callable
from typing import Generic, TypeVar

from fedcore.typing import Seconds

What = TypeVar("What")


class Clock(Generic[What]):
    """A queue of future events."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self.queue: list[tuple[Seconds, int, What]] = []  # a heap
        self._numbers = itertools.count(1)
        self.ticket = self._numbers.__next__
        """Returns the next ticket; of two events at one time, the lower comes first."""

    def go_on(self, now: Seconds, ticket: int) -> None:
        """Continues at a time, with ``ticket`` as the next ticket number."""
        self.now = now
        self._numbers = itertools.count(ticket)
        self.ticket = self._numbers.__next__

    def at(self, time: Seconds, what: What) -> None:
        """Schedules an event at a time, or now if that has passed."""
        heapq.heappush(self.queue, (max(time, self.now), self.ticket(), what))

    def after(self, delay: Seconds, what: What) -> None:
        """Schedules an event after a delay."""
        self.at(self.now + delay, what)

    def next(self, until: Seconds = math.inf) -> What | None:
        """Removes the next event, and moves the time on to it.

        Args:
            until: the last time at which an event counts.

        Returns:
            The event, or None if there is none up to that time.
        """
        if not self.queue or self.queue[0][0] > until:
            return None
        time, _, what = heapq.heappop(self.queue)
        self.now = max(self.now, time)
        return what


Call = Callable[[], None]
