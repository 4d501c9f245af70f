"""The one limit for all that must end or come about: it stops a hang.

No test is about it, so it is generous: a busy machine changes nothing.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

PATIENCE = 100.0  # seconds; pytest ends a test after 120


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
    """Looks again and again until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.005)


@contextmanager
def must_end(computing: float) -> Iterator[None]:
    """Raises where the block computes for longer, or waits for ever, as for a pipe.

    Code that waits takes no CPU: the clock stops it.

    Args:
        computing: seconds of CPU, so that a busy machine changes nothing.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it hangs: not through after {computing:g} s of CPU")

    timers = {
        signal.SIGPROF: (signal.ITIMER_PROF, computing),
        signal.SIGALRM: (signal.ITIMER_REAL, PATIENCE),
    }
    before = {number: signal.signal(number, stop) for number in timers}
    for timer, limit in timers.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
