"""Writes lines on a thread, so that nothing waits for a slow reader."""

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from fedcore.typing import Seconds
from fedrun.json_lines import JsonFormatter, dropped_line

MOST_LINES = 10_000  # lines that may wait for a reader
LAST: Seconds = 5.0  # to wait for a reader at the end
Line = Callable[[], str | None]  # makes a line, or None, when its turn has come


class LineWriter:
    """Writes lines to a stream; drops lines if its reader is too slow."""

    def __init__(
        self, stream: TextIO, dropped: Callable[[int], str], most: int = MOST_LINES
    ) -> None:
        """``dropped`` makes the line that says how many were dropped."""
        self._stream, self._say_dropped = stream, dropped
        self._lines: queue.Queue[Line | None] = queue.Queue(most)
        self._lock = threading.Lock()
        self._dropped = 0  # lines since the last line about this
        self._thread = threading.Thread(target=self._work, name="lines", daemon=True)
        self._thread.start()

    def write(self, line: Line) -> None:
        """Adds a line to those that wait. Never blocks."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            with self._lock:
                self._dropped += 1

    def flush(self) -> None:
        """Waits, for :data:`LAST` seconds at most, until all lines are written."""
        done = threading.Event()
        with contextlib.suppress(queue.Full):
            self._lines.put(done.set, timeout=LAST)
            done.wait(LAST)

    def close(self) -> None:
        """Writes the lines that wait, unless nobody reads them, and ends the thread."""
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=LAST)
            self._thread.join(LAST)

    def _work(self) -> None:
        # A closed stream has no reader who would miss the lines.
        with contextlib.suppress(OSError, ValueError):
            while (line := self._lines.get()) is not None:
                self._put(line())
                self._put(self._dropped_line())
            self._put(self._dropped_line())

    def _dropped_line(self) -> str | None:
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return self._say_dropped(dropped) if dropped else None

    def _put(self, line: str | None) -> None:
        if line is not None:
            print(line, file=self._stream, flush=True)


class _Aside(logging.Handler):
    """Gives log lines to a writer."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self._writer.write(lambda: text)


@contextlib.contextmanager
def logging_aside() -> Iterator[None]:
    """Keeps logging in the block from waiting for a reader of the standard error."""
    root = logging.getLogger()
    writers, before = [], list(root.handlers)
    for handler in before:
        if type(handler) is logging.StreamHandler:
            is_json = isinstance(handler.formatter, JsonFormatter)
            text = "{} lines of the log dropped".format
            writer = LineWriter(handler.stream, dropped_line if is_json else text)
            aside = _Aside(writer)
            aside.setFormatter(handler.formatter)
            aside.setLevel(handler.level)
            root.removeHandler(handler)
            root.addHandler(aside)
            writers.append(writer)
    try:
        yield
    finally:
        root.handlers[:] = before
        for writer in writers:
            writer.close()
