"""Ends a client cleanly on Ctrl-C, on SIGTERM, or when its parent process ends."""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from fedcore.interruption import Interruption
from fedrun.cli.command import log_printable

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 5.0  # seconds for a clean end; the state is always on disk


@contextlib.contextmanager
def interruptible(given: dict[str, Any]) -> Iterator[None]:
    """Sets up logging, and ends the block cleanly on Ctrl-C and SIGTERM."""
    level = logging.DEBUG if given.pop("verbose") else logging.INFO
    if given.pop("quiet"):
        level = logging.WARNING
    as_json = given.pop("log") == "json"
    log_printable(level, "%(asctime)s %(message)s", "%H:%M:%S", as_json=as_json)

    is_ending = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not is_ending.is_set():
            is_ending.set()
            # After an interrupt inside gRPC, its channel sometimes never closes, and a
            # thread of the user's code may not end either.
            last = threading.Timer(GRACE, _end_at_once)
            last.daemon = True
            last.start()
        raise Interruption

    before = {which: signal.signal(which, interrupt) for which in _SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        _say_goodbye()
    finally:
        for which, handler in before.items():
            signal.signal(which, handler or signal.SIG_DFL)


def _end_at_once() -> None:
    _say_goodbye()
    os._exit(0)


def _say_goodbye() -> None:
    logging.getLogger("fedclient").info("interrupted; the same command continues")


def end_with_stdin() -> None:
    """Ends this process when its parent process ends."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
