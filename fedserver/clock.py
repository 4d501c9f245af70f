"""The time of a run: seconds since 1970 that neither step back nor jump."""

import time

from fedcore.typing import Seconds


class Clock:
    """Where a run was, and the time that has passed since then.

    The wall clock counts between two processes, where nothing else can, and never
    backwards. Within a process it is not asked again: whoever sets it moves no timer.
    """

    def __init__(self, start: Seconds) -> None:
        """``start`` is the last moment of the run, or the wall clock if it is later."""
        self._start, self._began = start, time.monotonic()

    def now(self) -> Seconds:
        """The time of the run."""
        return self._start + (time.monotonic() - self._began)
