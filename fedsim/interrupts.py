"""Ctrl-C waits while the journal is written to, so that it is whole afterwards."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self


class Interrupts:
    """Between ``with`` and its end, SIGINT is heard where nothing holds it."""

    def __init__(self) -> None:
        self._holds, self.came = 0, False
        self._before: object = None

    def __enter__(self) -> Self:
        """Listens if somebody did; only the main thread can.

        A command in the background of a shell script is told to ignore the signal.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Whoever listened before listens again."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]
            self._before = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """An interrupt that comes in this block is heard at its end; a second at once.

        ``came`` says meanwhile whether there is one.
        """
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        if self.came and not self._holds:
            self.came = False
            self._hear(signal.SIGINT, None)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._holds and not self.came:
            self.came = True
        elif callable(self._before):
            self._before(number, frame)
