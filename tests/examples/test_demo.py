"""What the demo shows, and what it judges."""

import io
from typing import Any

import pytest
from rich.console import Console

from examples.demo.view import EVERY, QUIET, Lines, Watch, picture, progress

MEASURED: dict[str, Any] = {"event": "evaluated", "values": {"accuracy": 0.5}}
STEPPED: dict[str, Any] = {"event": "stepped"}


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(out: io.StringIO) -> list[str]:
    """What was written since the last time."""
    lines = out.getvalue().splitlines()
    out.seek(0)
    out.truncate()
    return lines


def test_into_a_pipe_it_writes_what_happens_and_now_and_then_how_far_it_is() -> None:
    out, clock = io.StringIO(), Clock()
    lines = Lines(Console(file=out, width=40), clock)
    lines.show([], [], 0)
    [line] = shown(out)
    assert line.strip() == "version 0 of 240, not evaluated yet, 0 kB on the network"
    diary = ["  1.0 s  SIGKILL for client-3; back in 3 s"]
    lines.show([STEPPED], diary, 5_000)
    assert shown(out) == diary
    for _ in range(9):
        lines.show([STEPPED], diary, 5_000)
    assert shown(out) == []
    clock.now += EVERY
    lines.show([STEPPED, MEASURED], diary, 9_000)
    [line] = shown(out)
    assert line.strip() == "version 1 of 240, accuracy 0.500, 9 kB on the network"


@pytest.mark.parametrize("events", [[], [STEPPED], [STEPPED, MEASURED]])
def test_no_figure_is_shown_that_nobody_has_measured(events: Any) -> None:
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(picture(events, [], 0))
    for text in (console.export_text(), *progress(events, 0)):
        assert "nan" not in text


def test_it_ends_where_nothing_happens_and_not_where_it_takes_long() -> None:
    clock = Clock()
    watch = Watch(clock)
    for count in range(100):
        assert not watch.is_stuck(count)
        clock.now += QUIET
    assert not watch.is_stuck(100)
    clock.now += QUIET + 1
    assert watch.is_stuck(100)
