"""Lines of JSON: what each of them says, and which ids it has."""

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrun.json_lines import (
    JsonFormatter,
    concern,
    concerning,
    json_line,
    make_dropped_line,
    note_ids,
    present_ids,
)


@pytest.fixture(autouse=True)
def _no_ids() -> Iterator[None]:
    with concerning():
        yield
    note_ids(run=None, client=None)


def logged(message: str, level: int = logging.WARNING, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord("a.b", level, "file", 1, message, (), None, **more)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    told: dict[str, Any] = json.loads(line)
    return told


def test_a_line_of_the_log_has_the_ids_of_what_it_concerns() -> None:
    note_ids(run="r1")
    with concerning(client="ann", cid="c1"):
        concern(seq=7)
        told = logged("it is so")
        del told["time"]
        assert told == {
            "level": "warning", "event": "log", "run": "r1", "client": "ann",
            "cid": "c1", "seq": 7, "logger": "a.b", "message": "it is so",
        }  # fmt: skip
    assert present_ids() == {"run": "r1"}


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (logging.DEBUG, "info"),
        (logging.INFO, "info"),
        (logging.WARNING, "warning"),
        (logging.ERROR, "error"),
        (logging.CRITICAL, "error"),
    ],
)
def test_every_line_has_one_of_three_levels(level: int, name: str) -> None:
    assert logged("x", level)["level"] == name


def test_a_traceback_is_a_part_of_its_line() -> None:
    try:
        raise ValueError("so")
    except ValueError:
        record = logging.LogRecord(
            "a", logging.ERROR, "f", 1, "failed", (), sys.exc_info()
        )
    told = json.loads(JsonFormatter().format(record))
    assert told["message"] == "failed"
    assert told["traceback"].splitlines()[-1] == "ValueError: so"


@given(st.text(), st.dictionaries(st.text(max_size=4), st.text() | st.integers()))
def test_whatever_is_said_is_one_line(message: str, facts: dict[str, Any]) -> None:
    line = json_line("said", "info", {**facts, "message": message})
    assert "\n" not in line
    assert json.loads(line)["message"] == message


def test_dropped_lines_are_counted_by_a_line() -> None:
    told = json.loads(make_dropped_line(3))
    assert (told["event"], told["lines"]) == ("dropped", 3)
