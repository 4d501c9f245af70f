"""A queue of calls that are due later."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Agenda:
    """Calls, each with the time at which it is due, in seconds, versions or so."""

    def __init__(self) -> None:
        self._numbers = count()  # calls that are due together keep their order
        self._calls: list[tuple[float, int, Callable[[], None]]] = []

    def __bool__(self) -> bool:
        """Returns whether any call is left."""
        return bool(self._calls)

    def add(self, due: float, call: Callable[[], None]) -> None:
        """Adds a call that is due later."""
        heappush(self._calls, (due, next(self._numbers), call))

    def do(self, now: float) -> None:
        """Makes all calls that are due by now, including those that they add."""
        while self._calls and self._calls[0][0] <= now:
            heappop(self._calls)[2]()
