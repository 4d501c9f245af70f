"""Two charts of results that were saved: of time, and of bytes."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.asynchrony.campaign import Campaign, Store
from benchmarks.asynchrony.course import Setting
from benchmarks.asynchrony.plot import draw
from benchmarks.asynchrony.problem import PROBLEMS
from fedcore.typing import JSON
from fedview.report import theme
from tools import svg
from tools.svg import Point

RESULTS = Path(__file__).parent.parent.parent / "benchmarks" / "results"
SETTINGS = (
    ("log_normal", 1000),
    ("pareto", 1000),
    ("log_normal", 200),
    ("pareto", 200),
)
SEEDS = (1, 2, 3)


def accuracy_over_time() -> str:
    """Returns the curves of four methods in four settings, as they were saved."""
    store = Store(RESULTS / "asynchrony.json")
    mlp = PROBLEMS["mlp"]
    settings = [Setting(mlp, "", speed, flight) for speed, flight in SETTINGS]
    campaigns = [Campaign(setting, store, print, 0.0, 0) for setting in settings]
    return draw(campaigns, SEEDS)


# --------------------------------------------------------------------- bytes, accuracy

_WIDTH, _HEIGHT = 800, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 74, 56
_MOST, _LEAST = 1.2e6, 1.0e3  # bytes of an update, at the ends of the axis
_LOWEST, _HIGHEST = 0.2, 1.0  # accuracy
_TASKS = {  # as the page calls them
    "watch": ("1D-CNN, motions", theme.GREEN),
    "cnn": ("2D-CNN, clothes", theme.VERMILION),
    "mlp_decay": ("MLP, clothes", theme.BLUE),
    "text": ("GRU, text", theme.PINK),
}


class _Measured(NamedTuple):
    """What a setting of compressors came to."""

    nbytes: float  # of an update, up and down, at the socket
    accuracy: float
    seeds: int


def accuracy_against_bytes() -> str:
    """Returns a line for each task, from no compression to the fewest bytes."""
    tasks = json.loads((RESULTS / "bytes.json").read_text(encoding="utf-8"))["tasks"]
    parts = [*_axes()]
    for place, (name, (title, colour)) in enumerate(_TASKS.items()):
        parts.append(svg.entry(Point(24 + 190 * place, 33), colour, title))
        parts += _series(_measured(tasks[name]), colour)
    title = "Accuracy against the bytes of an update, for four tasks"
    return svg.document(_WIDTH, _HEIGHT, title, parts)


def _measured(task: JSON) -> list[_Measured]:
    """Returns the settings without cut connections, from many bytes to few."""
    found = [
        _Measured(sum(row["socket"].values()), row["accuracy"], len(row["seeds"]))
        for name, row in task["settings"].items()
        if "cut" not in name
    ]
    return sorted(found, reverse=True)


def _across(nbytes: float) -> float:
    share = math.log(_MOST / nbytes) / math.log(_MOST / _LEAST)
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * share


def _down(accuracy: float) -> float:
    share = (accuracy - _LOWEST) / (_HIGHEST - _LOWEST)
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share


def _axes() -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    yield svg.text(Point(24, _TOP - 14), "test accuracy", kind="faint")
    for tenths in range(2, 11, 2):
        y = _down(tenths / 10)
        yield svg.line(Point(_LEFT, y), Point(right, y))
        words = f"{tenths / 10:.1f}".removeprefix("0")
        yield svg.text(Point(_LEFT - 9, y + 5), words, anchor="end", kind="faint")
    for nbytes, words in (
        (1e6, "1 MB"),
        (1e5, "100 kB"),
        (1e4, "10 kB"),
        (2e3, "2 kB"),
    ):
        x = _across(nbytes)
        yield svg.line(Point(x, bottom), Point(x, _TOP), dashes="2 3")
        yield svg.text(Point(x, bottom + 21), words, anchor="middle", kind="faint")
    middle = Point((_LEFT + right) / 2, _HEIGHT - 10)
    words = "bytes of one update at the socket, up and down: fewer to the right"
    yield svg.text(middle, words, anchor="middle", kind="faint")


def _series(rows: list[_Measured], colour: str) -> Iterator[str]:
    points = [Point(_across(row.nbytes), _down(row.accuracy)) for row in rows]
    yield svg.curve(points, colour, 2)
    for row, point in zip(rows, points, strict=True):
        inside = colour if row.seeds > 1 else "none"
        place = f'cx="{point.x:.1f}" cy="{point.y:.1f}" r="4.5"'
        yield f'<circle class="ground" {place}/>'
        yield f'<circle {place} fill="{inside}" stroke="{colour}" stroke-width="2"/>'
