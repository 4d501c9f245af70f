"""Reads a trace, and reports a mistake in it with file, line and a sentence."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from fedcore.errors import ConfigError
from fedcore.text import LONG_SENTENCE, brief
from fedrun.plain_files import open_to_read, require_regular, require_size
from fedsim.traces.format import (
    COLUMNS,
    MUST_HAVE,
    OF_DATA,
    OF_DEVICE,
    STATES,
    ClientTrace,
    Segment,
)
from fedview.results.columns import text_of

Cells = dict[str, str]
MOST_BYTES = 1 << 30  # of a trace
_DIGITS = 15  # digits of a whole number


def read_trace(path: Path) -> list[ClientTrace]:
    """Returns the clients of a trace, in the order in which they first appear.

    Raises:
        ConfigError: there is a mistake. The message names the file, the line, and the
            allowed values.
    """
    return _Reader(path).read()


def read_values(path: Path) -> tuple[float, ...]:
    """Returns the numbers of a file with one number a line, and perhaps a heading.

    Raises:
        ConfigError: a line is not a number above 0, or there is no number.
    """
    values = []
    for line, cells in _lines(path):
        if len(cells) != 1:
            _fail(path, line, f"expected one value a line, got {len(cells)}")
        value = _float(cells[0])
        if value is None and line == 1:
            continue
        if value is None or not 0 < value < math.inf:
            _fail(path, line, f"expected a number above 0, got {cells[0]!r}")
        values.append(value)
    if not values:
        raise ConfigError(f"{path}: no values; expected one number above 0 a line")
    return tuple(values)


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = 0
        self._clients: dict[str, ClientTrace] = {}
        self._with_tasks: set[str] = set()

    def read(self) -> list[ClientTrace]:
        header: list[str] | None = None
        for line, cells in _lines(self._path):
            self._line = line
            if header is None:
                header = self._check(cells)
            else:
                self._take(header, cells)
        if not self._clients:
            raise ConfigError(
                f"{self._path}: no clients; expected the columns {', '.join(COLUMNS)} "
                "and a row for each segment of a client's life"
            )
        if not any(True for client in self._clients.values() for _ in client.stays):
            raise ConfigError(
                f"{self._path}: no client is ever there; expected rows of state "
                "there or task"
            )
        clients = list(self._clients.values())
        for client in clients:
            if (client.index is None) != (clients[0].index is None):
                have, lack = (
                    next(each.name for each in clients if (each.index is None) is no)
                    for no in (False, True)
                )
                raise ConfigError(
                    f"{self._path}: {have} has an index and a count, {lack} has none; "
                    "say them of all clients or of none"
                )
        return clients

    def _fail(self, what: str) -> NoReturn:
        _fail(self._path, self._line, what)

    def _check(self, header: list[str]) -> list[str]:
        names = [name.strip() for name in header]
        for place, name in enumerate(names):
            if name not in COLUMNS:
                allowed = ", ".join(COLUMNS)
                self._fail(f"unknown column {name!r}; allowed: {allowed}")
            if name in names[:place]:
                self._fail(f"column {name!r} is there twice")
        missing = [name for name in MUST_HAVE if name not in names]
        if missing:
            self._fail(f"no column {missing[0]!r}; needed: {', '.join(MUST_HAVE)}")
        return names

    def _take(self, header: list[str], cells: list[str]) -> None:
        if len(cells) != len(header):
            self._fail(f"{len(cells)} values, and the header has {len(header)} columns")
        row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
        name = text_of(row["client"])
        if not name:
            self._fail("client is empty; expected its name")
        segment = self._segment(row)
        client = self._clients.setdefault(name, ClientTrace(name))
        self._follows(client, segment)
        client.segments.append(segment)
        for column in OF_DEVICE:
            if row.get(column):
                self._learn(client, column, self._amount(column, row[column]))
        for column in OF_DATA:
            if row.get(column):
                self._learn(client, column, self._whole(column, row[column]))
        self._check_place(client)
        if segment.state == "task":
            self._with_tasks.add(name)
        if name in self._with_tasks:
            self._check_link(client)

    def _segment(self, row: Cells) -> Segment:
        state = next((s for s in STATES if s == row["state"]), None)
        if state is None:
            self._fail(f"state {row['state']!r}; allowed: {', '.join(STATES)}")
        start = self._seconds("start", row["start"])
        end = self._seconds("end", row["end"]) if row["end"] else math.inf
        if end <= start:
            self._fail(f"end {end:g} is not after start {start:g}")
        return Segment(start, end, state, self._steps(state, row.get("steps", "")))

    def _steps(self, state: str, text: str) -> int:
        if state != "task":
            if text:
                self._fail(f"steps {text!r} in state {state}; only a task has steps")
            return 0
        if not _is_whole(text, 1):
            self._fail(f"steps {text!r}; a task needs a whole number of at least 1")
        return int(text)

    def _seconds(self, column: str, text: str) -> float:
        value = _float(text)
        if value is None or not 0 <= value < math.inf:
            self._fail(f"{column} {text!r}; expected seconds, a number of at least 0")
        return value

    def _follows(self, client: ClientTrace, segment: Segment) -> None:
        """Checks that a client's rows are a chain without gaps."""
        before = client.segments[-1] if client.segments else None
        due = 0.0 if before is None else before.end
        if segment.start == due:
            return
        start = f"{client.name}: start {segment.start:.12g}"
        if before is None:
            self._fail(
                f"{start}, and its first row must start at 0; state away fills the "
                "time before it comes"
            )
        if math.isinf(due):
            self._fail(f"{start}, but its row before has no end; only the last may")
        if segment.start > due:
            self._fail(
                f"{start} leaves a gap, since its row before ends at {due:.12g}; "
                "state away fills the time in which it is not there"
            )
        if segment.start < before.start:
            self._fail(
                f"{start} is out of order, since its row before starts at "
                f"{before.start:.12g}; a client's rows must be in the order of time"
            )
        self._fail(f"{start} overlaps its row before, which ends at {due:.12g}")

    def _amount(self, column: str, text: str) -> float:
        """Returns a number about a client's device."""
        value, is_rate = _float(text), column.endswith("_mbit")
        least = 0.0 if column == "latency" else math.ulp(0.0)
        most = math.inf if is_rate else math.nextafter(math.inf, 0)
        if value is None or not least <= value <= most:
            bound = "of at least 0" if column == "latency" else "above 0"
            also = ", or inf" if is_rate else ""
            self._fail(f"{column} {text!r}; expected a number {bound}{also}")
        return value

    def _whole(self, column: str, text: str) -> int:
        """Returns a number about a client's part of the data."""
        least = 0 if column == "index" else 1
        if not _is_whole(text, least):
            self._fail(
                f"{column} {text!r}; expected a whole number of at least {least}"
            )
        return int(text)

    def _check_place(self, client: ClientTrace) -> None:
        """Checks that index and count name a part of the data."""
        index, count = client.index, client.count
        if (index is None) != (count is None):
            given, lacks = OF_DATA if count is None else OF_DATA[::-1]
            self._fail(f"{client.name}: {given} without {lacks}; say both or neither")
        if index is not None and count is not None and index >= count:
            self._fail(
                f"{client.name}: index {index} of count {count}; the first is 0 and "
                f"the last is {count - 1}"
            )

    def _learn(self, client: ClientTrace, column: str, value: float) -> None:
        known = getattr(client, column)
        if known is not None and known != value:
            self._fail(
                f"{client.name}: {column} is {value:g} here and {known:g} above; a "
                "client has one, said in any of its rows"
            )
        setattr(client, column, value)

    def _check_link(self, client: ClientTrace) -> None:
        """Checks that no link is given beside tasks, whose times include transfers."""
        for column in ("up_mbit", "down_mbit"):
            if math.isfinite(getattr(client, column) or math.inf):
                self._fail(
                    f"{client.name}: {column} beside a task, whose time includes its "
                    "transfers; leave it empty, or say inf"
                )


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows with their line numbers, without empty lines."""
    try:
        size = require_regular(path).st_size
        require_size(path, size, MOST_BYTES)
        with open(open_to_read(path), encoding="utf-8-sig", newline="") as file:
            table = csv.reader(file, strict=True)
            for cells in table:
                if cells:
                    yield table.line_num, cells
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text in UTF-8") from error
    except csv.Error as error:
        raise ConfigError(f"{path}:{table.line_num}: not CSV: {error}") from error


def _fail(path: Path, line: int, what: str) -> NoReturn:
    raise ConfigError(f"{path}:{line}: {brief(what, LONG_SENTENCE)}")


def _is_whole(text: str, least: int) -> bool:
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    return is_number and int(text) >= least


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
