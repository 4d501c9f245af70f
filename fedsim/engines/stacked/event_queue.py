"""The future events of clients, in the order of time."""

import math
from collections import deque
from collections.abc import Callable
from heapq import heappush
from typing import Any

from fedcore.typing import JSON, Seconds
from fedsim.clock import Clock
from fedsim.engines.fates import READY

Entry = tuple[Seconds, int, int, int, int]  # when, ticket, what, to whom, in which life
NEVER: Entry = math.inf, 0, 0, 0, 0


class EventQueue:
    """Three queues: events of clients, verdicts on their way, and ends of leases."""

    def __init__(self, clock: Clock[Any], count: int) -> None:
        """Makes empty queues for ``count`` clients; the clock's tickets settle ties."""
        self._clock, self._ticket = clock, clock.ticket
        self.life = [0] * count  # what was begun in an earlier life never happens
        self.events: list[Entry] = []  # a heap
        self.acks: deque[Entry] = deque()  # in order
        self.expiries: deque[tuple[Seconds, int, int, int]] = deque()  # in order

    def put(self, when: Seconds, what: int, who: int) -> None:
        """Schedules an event of a client; it is void if the client's life ends."""
        heappush(self.events, (when, self._ticket(), what, who, self.life[who]))

    def put_ack(self, when: Seconds, who: int) -> None:
        """Schedules that a client hears of its update, mostly in order of time."""
        entry, acks = (when, self._ticket(), READY, who, self.life[who]), self.acks
        if acks and acks[-1][0] > when:
            heappush(self.events, entry)
        else:
            acks.append(entry)

    def put_expiry(self, when: Seconds, who: int, number: int) -> None:
        """Schedules the end of this lease of a client; all leases are equally long."""
        self.expiries.append((when, self._ticket(), who, number))

    def dump(self, is_newest: Callable[[int, int], bool]) -> JSON:
        """Returns all events, without ends of leases that have no effect any more.

        Args:
            is_newest: returns whether a client has no newer lease than the one of a
                number.
        """
        return {
            "now": self._clock.now,
            "ticket": self._ticket(),
            "life": self.life,
            "events": self.events,
            "acks": list(self.acks),
            "expiries": [each for each in self.expiries if is_newest(*each[2:])],
        }

    def load(self, saved: JSON) -> None:
        """Restores what :meth:`dump` returned; the clock continues from there."""
        self._clock.go_on(saved["now"], saved["ticket"])
        self._ticket = self._clock.ticket
        self.life[:] = saved["life"]
        self.events[:] = map(_entry, saved["events"])
        self.acks.extend(map(_entry, saved["acks"]))
        self.expiries.extend(
            (at, n, who, number) for at, n, who, number in saved["expiries"]
        )


def _entry(saved: JSON) -> Entry:
    when, ticket, what, who, life = saved
    return when, ticket, what, who, life
