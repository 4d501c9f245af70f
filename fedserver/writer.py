"""Lines for whoever reads them, written by a thread: nobody waits for a slow reader."""

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from fedcore.typing import Seconds

MOST_LINES = 10_000  # that wait for a reader
LAST: Seconds = 5.0  # how long the end waits for a reader
Line = Callable[[], str | None]  # makes a line when its turn has come; None: no line


class LineWriter:
    """Writes lines to a stream; drops some where its reader is too slow."""

    def __init__(
        self, stream: TextIO, dropped: Callable[[int], str], most: int = MOST_LINES
    ) -> None:
        """``dropped`` makes the line that says how many were dropped."""
        self._stream, self._say_dropped = stream, dropped
        self._lines: queue.Queue[Line | None] = queue.Queue(most)
        self._lock = threading.Lock()
        self._dropped = 0  # since it was said last
        self._thread = threading.Thread(target=self._work, name="lines", daemon=True)
        self._thread.start()

    def write(self, line: Line) -> None:
        """Takes a line; never waits."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            with self._lock:
                self._dropped += 1

    def flush(self) -> None:
        """Waits a while until what was taken so far is written."""
        done = threading.Event()
        with contextlib.suppress(queue.Full):
            self._lines.put(done.set, timeout=LAST)
            done.wait(LAST)

    def close(self) -> None:
        """Writes what waits, unless nobody reads it."""
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=LAST)
            self._thread.join(LAST)

    def _work(self) -> None:
        # A stream that is closed has lost its reader: nobody misses the lines.
        with contextlib.suppress(OSError, ValueError):
            while (line := self._lines.get()) is not None:
                self._put(line())
                self._put(self._told_dropped())
            self._put(self._told_dropped())

    def _told_dropped(self) -> str | None:
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return self._say_dropped(dropped) if dropped else None

    def _put(self, line: str | None) -> None:
        if line is not None:
            print(line, file=self._stream, flush=True)


class _Aside(logging.Handler):
    """Gives what is logged to a writer."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self._writer.write(lambda: text)


@contextlib.contextmanager
def logging_aside() -> Iterator[None]:
    """In this block whoever logs does not wait for a reader of the standard error."""
    root = logging.getLogger()
    writers, before = [], list(root.handlers)
    for handler in before:
        if type(handler) is logging.StreamHandler:
            writer = LineWriter(handler.stream, "{} lines of the log dropped".format)
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
