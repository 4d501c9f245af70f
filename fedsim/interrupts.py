"""Delays Ctrl-C while the journal is being written, so that it stays whole."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from fedcore.interruption import Interruption


class Interrupts:
    """Handles SIGINT in its ``with`` block, except where it is held."""

    def __init__(self) -> None:
        self._holds, self.came = 0, False
        self._before: object = None

    def __enter__(self) -> Self:
        """Takes over the handler of SIGINT, in the main thread.

        A signal that is ignored stays so, as in the background of a shell script.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Restores the handler."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]
            self._before = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delays an interrupt to the end of the block; a second one acts at once.

        ``came`` says whether one is delayed.
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
            try:
                self._before(number, frame)
            except KeyboardInterrupt as error:
                raise Interruption from error
