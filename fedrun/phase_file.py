"""Reads the file of ``fedclient join --phases``: the phases of one client's tasks.

A line of JSON each. The first one names format, client and run; so does every later
start of the client. All others are rows: ``task``, ``phase``, ``start`` and
``duration`` in seconds, ``bytes``, ``depends_on`` (the phase of the same task that it
waited for, or null), with a download ``version``, and ``part`` where phases have parts.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedcore.errors import ConfigError
from fedcore.planning.trace import PHASES, Row, Trace, check_row, trace_of
from fedcore.text import LONG_SENTENCE, brief
from fedrun.plain_files import open_to_read, read_plain

FORMAT = "latecomer phases 1"
MOST_BYTES = 1 << 30  # of a trace
_NUMBERS = {"task": int, "start": float, "duration": float, "bytes": int}


def first_client(path: Path) -> str | None:
    """Returns the client that a file is of; None: there is no file, or it is empty.

    Raises:
        ConfigError: it is not such a file.
    """
    if not path.is_file() or not path.stat().st_size:
        return None
    with open(open_to_read(path), "rb") as file:
        return str(_head(path, 1, _parse(file.readline(4096)))["client"])


def read_phases(path: Path) -> Trace:
    """Reads the trace of one client; a last line that was cut off is left out.

    Raises:
        ConfigError: the file is no trace, is of several clients, or cannot support a
            prediction; the message says which line, and why.
    """
    try:
        lines = read_plain(path, MOST_BYTES).splitlines(keepends=True)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if not lines:
        raise ConfigError(f"{path}: the trace is empty")
    client = _head(path, 1, _parse(lines[0]))["client"]
    try:
        return trace_of(client, _rows(path, lines, client))
    except ConfigError as error:
        text = brief(str(error), LONG_SENTENCE)
        raise ConfigError(text if str(path) in text else f"{path}: {text}") from error


def _rows(path: Path, lines: list[bytes], client: str) -> Iterator[Row]:
    start = task = 0  # how often the client was started, and the tasks before
    for number, line in enumerate(lines, 1):
        found = _parse(line)
        if found is None:
            if not line.strip():
                continue
            after = lines[number] if number < len(lines) else b"\n"
            # A process that was killed may leave half a line, at the end or, if it
            # was started again, before an empty line or a head.
            if not after.strip() or b'"format"' in after:
                continue
            raise ConfigError(f"{path}:{number}: is no JSON object; each line is one")
        if "format" in found:
            other = _head(path, number, found)["client"]
            if other != client:
                raise ConfigError(
                    f"{path}:{number}: the trace mixes the clients {client!r} and "
                    f"{other!r}; a prediction is made from one"
                )
            start = task + 1 if number > 1 else 0
            continue
        row = _row(path, number, found)
        task = max(task, start + row.task)
        yield row._replace(task=start + row.task)


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _head(path: Path, number: int, found: dict[str, Any] | None) -> dict[str, Any]:
    if (
        found is None
        or found.get("format") != FORMAT
        or not isinstance(found.get("client"), str)
    ):
        raise ConfigError(
            f"{path}:{number}: is no trace of fedclient join --phases, which says "
            f'"format": "{FORMAT}" and "client"'
        )
    return found


def _row(path: Path, number: int, found: dict[str, Any]) -> Row:
    known = set(Row._fields)
    for name in found:
        if name not in known:
            raise ConfigError(
                f"{path}:{number}: unknown column {name!r}; the columns are "
                f"{', '.join(Row._fields)}"
            )
    for name, kind in _NUMBERS.items():
        value = found.get(name)
        right = isinstance(value, int | float) and not isinstance(value, bool)
        if not right or (kind is int and not isinstance(value, int)):
            raise ConfigError(
                f"{path}:{number}: column {name!r}: expected "
                f"{'a whole number' if kind is int else 'seconds'}, got {value!r}"
            )
    if not isinstance(found.get("phase"), str):
        raise ConfigError(
            f"{path}:{number}: column 'phase': expected one of {', '.join(PHASES)}, "
            f"got {found.get('phase')!r}"
        )
    for name in ("version", "part"):
        value = found.get(name)
        if not (value is None or isinstance(value, int)):
            raise ConfigError(f"{path}:{number}: column {name!r}: got {value!r}")
    try:
        row = Row(**found)
        check_row(row)
    except ConfigError as error:
        raise ConfigError(f"{path}:{number}: {error}") from error
    except OverflowError as error:  # a whole number that is no float
        raise ConfigError(
            f"{path}:{number}: 'start' and 'duration': expected seconds, got a number "
            "that is too large"
        ) from error
    return row
