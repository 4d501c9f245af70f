"""What is to be done later, in order."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Agenda:
    """Calls, each with when it is due: in seconds, in versions, in whatever grows."""

    def __init__(self) -> None:
        self._numbers = count()  # calls that are due together keep their order
        self._calls: list[tuple[float, int, Callable[[], None]]] = []

    def __bool__(self) -> bool:
        """Whether anything is left to be done."""
        return bool(self._calls)

    def add(self, due: float, call: Callable[[], None]) -> None:
        """Has something done when it is due."""
        heappush(self._calls, (due, next(self._numbers), call))

    def do(self, now: float) -> None:
        """Does all that is due by now, also what these calls add."""
        while self._calls and self._calls[0][0] <= now:
            heappop(self._calls)[2]()
