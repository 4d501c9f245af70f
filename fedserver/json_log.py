"""Prints one JSON line for each event, where there is no terminal."""

import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TextIO

from fedcore.coordinator.records import (
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
from fedrun.journal.codec import Row, facts_of
from fedrun.json_lines import Level, dropped_line, json_line, now
from fedserver.progress import Progress
from fedserver.writer import MOST_LINES, LineWriter

_WARNINGS = (Cut, Evicted, Failed, HistoryForked, Paused, Skipped, Unproved)
# Large, or of the clients' data alone: label counts say what a device holds.
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
        """``most`` lines may wait for a reader; more are dropped, and counted."""
        self._progress = progress
        self._writer = LineWriter(stream, dropped_line, most)
        progress.listeners.append(self._record)

    def say(self, event: str, *, level: Level = "info", **facts: Any) -> None:
        """Writes one line. Never waits for the reader."""
        at, ids = now(), self._progress.ids()
        self._writer.write(lambda: json_line(event, level, {**ids, **facts}, at))

    def flush(self) -> None:
        """Waits a few seconds for the lines so far to be written."""
        self._writer.flush()

    def close(self) -> None:
        """Writes the lines that wait, and ends the thread."""
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
    """Returns whether a record is of a task whose update has not arrived."""
    if isinstance(record, Leased):
        return record.task == "train"
    return isinstance(record, Declined | Failed | Skipped)


def _bare(record: Row) -> Row:
    """Returns the record without the fields that are not printed, to spare memory."""
    names = {field.name for field in fields(record)} & _LEFT_OUT.keys()
    left_out = {name: _LEFT_OUT[name] for name in names}
    return replace(record, **left_out) if left_out else record


def _record_line(at: str, level: Level, record: Row, ids: Mapping[str, Any]) -> str:
    facts = facts_of(record)
    for key in ("at", *_LEFT_OUT):
        facts.pop(key, None)
    return json_line(type(record).__name__.lower(), level, {**ids, **facts}, at)
