"""Makes a signal end a command by an Interruption, as Ctrl-C does."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from fedcore.interruption import interrupt


@contextmanager
def stoppable(which: int = signal.SIGTERM) -> Iterator[None]:
    """Makes a signal raise an Interruption in the block."""
    before = signal.signal(which, interrupt)
    try:
        yield
    finally:
        signal.signal(which, before)
