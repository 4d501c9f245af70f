"""Makes SIGTERM end a command as Ctrl-C does."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from fedcore.interruption import interrupt


@contextmanager
def stoppable() -> Iterator[None]:
    """Makes SIGTERM raise an Interruption in the block, as SIGINT does."""
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
