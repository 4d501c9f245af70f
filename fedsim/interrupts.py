"""Delays Ctrl-C while the journal is being written, so that the journal stays whole."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from fedcore.interruption import Interruption

_SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
_PATIENCE = 1.0  # seconds for which an interrupt is delayed silently
_STDERR = 2


class Interrupts:
    """Handles Ctrl-C in its ``with`` block, except where it is held.

    It treats the other signals that end a process in the same way, if the program
    handles them.
    """

    def __init__(self) -> None:
        self._holds = 0
        self.came = False
        """Whether an interrupt is delayed."""
        self._number = 0  # number of its signal
        self._before: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._patience: threading.Timer | None = None

    def __enter__(self) -> Self:
        """Takes over the handlers, in the main thread.

        An ignored signal stays ignored, as in the background of a shell script.
        """
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._before[number] = handler
                    signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Restores the earlier signal handlers."""
        self._end_patience()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delays an interrupt to the end of the block; a second one acts at once."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        if self.came and not self._holds:
            self.came = False
            self._hear(self._number, None)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._holds and not self.came:
            self.came, self._number = True, number
            self._patience = threading.Timer(_PATIENCE, _say_what_it_waits_for)
            self._patience.daemon = True
            self._patience.start()
            return
        self._end_patience()
        try:
            self._before[number](number, frame)
        except KeyboardInterrupt as error:
            raise Interruption from error

    def _end_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def _say_what_it_waits_for() -> None:
    text = "interrupted; waits for the tasks that train now; again: ends at once\n"
    os.write(_STDERR, text.encode())
