"""Lines of JSON: the one format in which a process tells what happens.

A line has ``time``, ``level`` and ``event``, and the ids of what it concerns: ``run``,
``client`` (a name), ``cid`` (its id) and ``seq``, the number of the update that the
client's task leads to. The log of Python's ``logging`` has the event ``log``.
"""

import json
import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

Level = Literal["info", "warning", "error"]
Ids = Mapping[str, Any]
_LEVELS: tuple[tuple[int, Level], ...] = (
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (0, "info"),
)
_NONE: Ids = MappingProxyType({})
_process: dict[str, Any] = {}
_task: ContextVar[Ids] = ContextVar("ids", default=_NONE)


def note_ids(**ids: Any) -> None:
    """Notes what all later lines of this process concern; None: nothing any more."""
    _process.update(ids)


def concern(**ids: Any) -> None:
    """Notes what later lines of this call concern, or of this thread."""
    _task.set({**_task.get(), **ids})


@contextmanager
def concerning(**ids: Any) -> Iterator[None]:
    """Notes what the lines of the block concern."""
    token = _task.set({**_task.get(), **ids})
    try:
        yield
    finally:
        _task.reset(token)


def present_ids() -> dict[str, Any]:
    """Returns the ids of what the caller works on."""
    ids = {**_process, **_task.get()}
    return {key: value for key, value in ids.items() if value is not None}


def json_line(event: str, level: Level, facts: Ids, at: str | None = None) -> str:
    """Returns one line; ``at`` is its time, as :func:`now` gives it."""
    line = {"time": at or now(), "level": level, "event": event, **facts}
    return json.dumps(line, default=str)


def now() -> str:
    """Returns the time as lines show it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class JsonFormatter(logging.Formatter):
    """Formats the log of Python as lines of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns a line with the ids of what the logging code works on."""
        level = next(name for least, name in _LEVELS if record.levelno >= least)
        facts = {
            **present_ids(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            facts["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        at = datetime.fromtimestamp(record.created, UTC)
        return json_line("log", level, facts, at.isoformat(timespec="milliseconds"))


def make_dropped_line(count: int) -> str:
    """Returns the line that says how many lines were dropped before it."""
    return json_line("dropped", "warning", {**present_ids(), "lines": count})
