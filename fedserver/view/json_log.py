"""A log of one JSON line for each event, for servers without a terminal."""

import contextlib
import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TextIO

from fedcore.coordinator.events import (
    Cut,
    Decided,
    Declined,
    Evicted,
    Failed,
    Freed,
    HistoryForked,
    Leased,
    Paused,
    Readmitted,
    Skipped,
    Unproved,
)
from fedcore.text import printable
from fedcore.typing import Seconds
from fedrun.journal.store import Row, facts_of
from fedrun.json_lines import JsonFormatter, Level, json_line, make_dropped_line, now
from fedserver.view.progress import Progress

# ------------------- writes lines on a thread, so that nothing waits for a slow reader


MOST_LINES = 10_000  # lines that may wait for a reader
LAST: Seconds = 5.0  # seconds to wait for a reader at the end
Line = Callable[[], str | None]  # makes a line, or None, when it is about to be written


class LineWriter:
    """Writes lines to a stream; drops lines if its reader is too slow."""

    def __init__(
        self, stream: TextIO, dropped: Callable[[int], str], most: int = MOST_LINES
    ) -> None:
        """Calls ``dropped`` to make the line that counts the dropped lines."""
        self._stream, self._say_dropped = stream, dropped
        self._lines: queue.Queue[Line | None] = queue.Queue(most)
        self._lock = threading.Lock()
        self._dropped = 0  # lines since the last such line
        self._thread = threading.Thread(target=self._work, name="lines", daemon=True)
        self._thread.start()

    def write(self, line: Line) -> None:
        """Adds a line to the queue; never blocks."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            with self._lock:
                self._dropped += 1

    def flush(self) -> None:
        """Waits until all lines are written, for :data:`LAST` seconds at most."""
        done = threading.Event()
        with contextlib.suppress(queue.Full):
            self._lines.put(done.set, timeout=LAST)
            done.wait(LAST)

    def close(self) -> None:
        """Writes the waiting lines, unless nobody reads them, and ends the thread."""
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=LAST)
            self._thread.join(LAST)

    def _work(self) -> None:
        # A closed stream has no reader who would miss the lines.
        with contextlib.suppress(OSError, ValueError):
            while (line := self._lines.get()) is not None:
                self._put(line())
                self._put(self._make_dropped_line())
            self._put(self._make_dropped_line())

    def _make_dropped_line(self) -> str | None:
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return self._say_dropped(dropped) if dropped else None

    def _put(self, line: str | None) -> None:
        if line is not None:
            print(line, file=self._stream, flush=True)


class _Aside(logging.Handler):
    """Passes log lines to a writer."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self._writer.write(lambda: text)


@contextlib.contextmanager
def logging_aside() -> Iterator[None]:
    """Keeps log calls in the block from waiting for a reader of the standard error."""
    root = logging.getLogger()
    writers, before = [], list(root.handlers)
    for handler in before:
        if type(handler) is logging.StreamHandler:
            is_json = isinstance(handler.formatter, JsonFormatter)
            text = "{} lines of the log dropped".format
            writer = LineWriter(handler.stream, make_dropped_line if is_json else text)
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


# ------------------ prints one JSON line for each event, for servers without a terminal


_WARNINGS = (Cut, Evicted, Failed, HistoryForked, Paused, Skipped, Unproved)
# Large, or about the clients' private data: label counts reveal what a device holds.
_LEFT_OUT: Mapping[str, Any] = {
    "payload": b"",
    "counts": None,
    "config": None,
    "spec": "",
    "columns": "",
}


class JsonLog:
    """Writes records as JSON lines to a stream, on a thread of its own."""

    def __init__(
        self, progress: Progress, stream: TextIO = sys.stdout, most: int = MOST_LINES
    ) -> None:
        """Queues ``most`` lines for a reader; drops and counts the others."""
        self._progress = progress
        self._writer = LineWriter(stream, make_dropped_line, most)
        progress.listeners.append(self._record)

    def say(self, event: str, *, level: Level = "info", **facts: Any) -> None:
        """Writes one line. Never waits for the reader."""
        at, ids = now(), self._progress.ids()
        self._writer.write(lambda: json_line(event, level, {**ids, **facts}, at))

    def flush(self) -> None:
        """Waits a few seconds for the lines so far to be written."""
        self._writer.flush()

    def close(self) -> None:
        """Writes the waiting lines, and ends the thread."""
        self._writer.close()

    def _record(self, record: Row) -> None:
        at, ids = now(), self._progress.ids(getattr(record, "cid", None))
        if isinstance(record, Decided):
            ids["seq"] = record.seq
        elif not _is_of_a_task(record):
            ids.pop("seq", None)
        if isinstance(record, Evicted | Readmitted | Freed):
            ids["client"] = printable(record.name)
        level: Level = "warning" if isinstance(record, _WARNINGS) else "info"
        bare = _bare(record)
        self._writer.write(lambda: _record_line(at, level, bare, ids))


def _is_of_a_task(record: Row) -> bool:
    """Returns whether a record is about a task whose update has not arrived."""
    if isinstance(record, Leased):
        return record.task == "train"
    return isinstance(record, Declined | Failed | Skipped)


def _bare(record: Row) -> Row:
    """Returns the record without the fields that are not printed, to save memory."""
    names = {field.name for field in fields(record)} & _LEFT_OUT.keys()
    left_out = {name: _LEFT_OUT[name] for name in names}
    return replace(record, **left_out) if left_out else record


def _record_line(at: str, level: Level, record: Row, ids: Mapping[str, Any]) -> str:
    facts = facts_of(record)
    for key in ("at", *_LEFT_OUT):
        facts.pop(key, None)
    return json_line(type(record).__name__.lower(), level, {**ids, **facts}, at)
