"""Virtual time: what falls due next, in the order of time and then of scheduling."""

import heapq
import math
from collections.abc import Callable
from typing import Generic, TypeVar

from fedcore.typing import Seconds

What = TypeVar("What")


class Clock(Generic[What]):
    """A queue of what will happen."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self._queue: list[tuple[Seconds, int, What]] = []
        self._number = 0

    def at(self, time: Seconds, what: What) -> None:
        """Something happens at a time, which is not before now."""
        self._number += 1
        heapq.heappush(self._queue, (max(time, self.now), self._number, what))

    def after(self, delay: Seconds, what: What) -> None:
        """Something happens after a while."""
        self.at(self.now + delay, what)

    def next(self, until: Seconds = math.inf) -> What | None:
        """What happens next, up to a time; the time is then its time, if that is later.

        None: nothing will happen.
        """
        if not self._queue or self._queue[0][0] > until:
            return None
        time, _, what = heapq.heappop(self._queue)
        self.now = max(self.now, time)
        return what


Call = Callable[[], None]
