"""Virtual time: what falls due next, in the order of time and then of scheduling."""

import heapq
import itertools
import math
from collections.abc import Callable
from typing import Generic, TypeVar

from fedcore.typing import Seconds

What = TypeVar("What")


class Clock(Generic[What]):
    """A queue of what will happen."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self.queue: list[tuple[Seconds, int, What]] = []  # a heap
        self._numbers = itertools.count(1)
        self.ticket = self._numbers.__next__
        """The next number: of two things at one time, the lower one comes first."""

    def go_on(self, now: Seconds, ticket: int) -> None:
        """Goes on where another clock was left."""
        self.now = now
        self._numbers = itertools.count(ticket)
        self.ticket = self._numbers.__next__

    def at(self, time: Seconds, what: What) -> None:
        """Something happens at a time, which is not before now."""
        heapq.heappush(self.queue, (max(time, self.now), self.ticket(), what))

    def after(self, delay: Seconds, what: What) -> None:
        """Something happens after a while."""
        self.at(self.now + delay, what)

    def next(self, until: Seconds = math.inf) -> What | None:
        """What happens next, up to a time; the time is then its time, if that is later.

        None: nothing will happen.
        """
        if not self.queue or self.queue[0][0] > until:
            return None
        time, _, what = heapq.heappop(self.queue)
        self.now = max(self.now, time)
        return what


Call = Callable[[], None]
