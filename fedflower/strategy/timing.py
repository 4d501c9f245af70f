"""The clock of a federation, and the timers that it waits for."""

import heapq
import time
from dataclasses import dataclass, field
from typing import Protocol

from fedcore.coordinator.actions import SetTimer
from fedcore.coordinator.events import Timer
from fedcore.typing import Seconds
from fedserver.core import Clock


class Time(Protocol):
    """The clock of a federation."""

    def now(self) -> Seconds:
        """Returns the time of the run."""

    def sleep(self, seconds: Seconds) -> None:
        """Waits."""


class WallTime:
    """The wall clock, from the last moment of a run on."""

    def __init__(self, start: Seconds) -> None:
        self.now = Clock(start).now
        self.sleep = time.sleep


@dataclass(order=True)
class _Alarm:
    at: Seconds
    number: int
    timer: Timer = field(compare=False)


class Alarms:
    """The timers of a coordinator, in the order of their times."""

    def __init__(self) -> None:
        self._alarms: list[_Alarm] = []
        self._number = 0

    def set(self, action: SetTimer) -> None:
        """Sets a timer; timers of the same time fire in the order of their setting."""
        self._number += 1
        heapq.heappush(self._alarms, _Alarm(action.at, self._number, action.timer))

    def due(self, now: Seconds) -> Timer | None:
        """Returns the next timer that has fired by now, once."""
        if not self._alarms or self._alarms[0].at > now:
            return None
        return heapq.heappop(self._alarms).timer
