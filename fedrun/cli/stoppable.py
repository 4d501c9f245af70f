"""Makes a signal end a command by an Interruption, as Ctrl-C does."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from fedcore.interruption import interrupt

ENDING = signal.SIGTERM, signal.SIGHUP
"""How a service manager ends a command, and how a terminal does that is closed."""


@contextmanager
def stoppable(*which: signal.Signals) -> Iterator[None]:
    """Makes signals raise an Interruption in the block, but those that are ignored.

    Args:
        which: the signals; none: those of ``ENDING``.
    """
    before = {one: signal.getsignal(one) for one in which or ENDING}
    heard = [one for one, handler in before.items() if handler is not signal.SIG_IGN]
    for one in heard:
        signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one in heard:
            signal.signal(one, before[one])
