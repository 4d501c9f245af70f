"""The end of child processes, and their handling of signals."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_with_parent() -> None:
    """Waits for the parent process to end, and then ends this one.

    Otherwise a process whose parent was killed would wait for work forever.
    """
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def deaf() -> Iterator[None]:
    """Ignores SIGINT and SIGTERM in the block, and in processes that start there.

    A signal may reach a whole group of processes, but only the first of them must
    react.
    """
    before = {which: signal.signal(which, signal.SIG_IGN) for which in SIGNALS}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
