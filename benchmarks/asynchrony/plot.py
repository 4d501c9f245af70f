"""The curves of all settings as one SVG, readable on light and dark backgrounds."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.asynchrony.campaign import Campaign
from benchmarks.asynchrony.contenders import BUFFERED, MIXED, OURS, SYNCHRONOUS
from benchmarks.asynchrony.course import Outcome
from fedview.report import theme
from tools import svg
from tools.svg import Point

Axis = Callable[[float], float]  # where a value lies on the page
COLOURS = {
    SYNCHRONOUS: theme.VERMILION,
    BUFFERED: theme.GREEN,
    MIXED: theme.ORANGE,
    OURS: theme.BLUE,
}
NAMES = {"log_normal": "log-normal speeds", "pareto": "Pareto speeds"}
_WIDTH, _HEIGHT = 400, 300  # of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 18, 32, 46
_NAME = 112  # pixels for the name of a method above the panels
_HEAD = 40  # pixels for all names
_LOWEST, _POINTS = 0.5, 120


def draw(campaigns: Sequence[Campaign], seeds: Sequence[int]) -> str:
    """A panel for each setting, two in a row."""
    across = min(len(campaigns), 2)
    width = max(_WIDTH * across, 18 + _NAME * (len(COLOURS) + 1))
    height = _HEAD + _HEIGHT * math.ceil(len(campaigns) / across)
    done = [_drawn(campaign, seeds) for campaign in campaigns]
    parts = [*_names([name for name in COLOURS if any(name in rows for rows in done)])]
    for place, (campaign, rows) in enumerate(zip(campaigns, done, strict=True)):
        row, column = divmod(place, across)
        where = f"{column * _WIDTH} {_HEAD + row * _HEIGHT}"
        panel = _panel(campaign, rows)
        parts += [f'<g transform="translate({where})">', *panel, "</g>"]
    right = Point(width - _RIGHT, 29)
    parts.append(svg.text(right, "test accuracy", anchor="end", kind="faint"))
    title = f"Test accuracy over time of {', '.join(COLOURS)}"
    return svg.document(width, height, title, parts)


def _drawn(campaign: Campaign, seeds: Sequence[int]) -> dict[str, list[Outcome]]:
    return {name: o for name, o in campaign.done(seeds).items() if name in COLOURS}


def _names(names: Sequence[str]) -> Iterator[str]:
    for place, name in enumerate(names):
        yield svg.entry(Point(18 + _NAME * place, 29), COLOURS[name], name)


def _panel(campaign: Campaign, rows: dict[str, list[Outcome]]) -> Iterator[str]:
    setting = campaign.setting
    end = max((o.seconds[-1] for each in rows.values() for o in each), default=1.0)
    top = math.ceil(20 * max(setting.problem.targets) + 1) / 20

    def across(when: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * when / end

    def down(value: float) -> float:
        share = (value - _LOWEST) / (top - _LOWEST)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    title = f"{setting.flight:,} train at a time, {NAMES[setting.speed]}"
    yield svg.text(Point(18, 22), title, bold=True)
    for value in np.arange(_LOWEST, top + 0.01, 0.1):
        y = down(float(value))
        yield svg.line(Point(_LEFT, y), Point(_WIDTH - _RIGHT, y))
        words = f"{value:.1f}".removeprefix("0")
        yield svg.text(Point(_LEFT - 7, y + 5), words, anchor="end", kind="faint")
    for target in setting.problem.targets:
        y = down(target)
        yield svg.line(Point(_LEFT, y), Point(_WIDTH - _RIGHT, y), dashes="2 3")
    step = 10 ** math.floor(math.log10(end))
    step *= 0.5 if end / step < 3 else 1
    step *= 2 if end / step > 5 else 1
    for when in np.arange(0, end, step):
        place = Point(across(float(when)), _HEIGHT - _BOTTOM + 19)
        yield svg.text(place, f"{when:g}", anchor="middle", kind="faint")
    under = Point((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8)
    words = "time, in tasks of a median device"
    yield svg.text(under, words, anchor="middle", kind="faint")
    for name, outcomes in rows.items():
        for outcome in outcomes:
            yield _curve(COLOURS[name], outcome, across, down)


def _curve(colour: str, outcome: Outcome, across: Axis, down: Axis) -> str:
    points = list(zip(outcome.middle, outcome.held, strict=True))
    points = points[:: max(1, len(points) // _POINTS)]
    return svg.curve(
        [Point(across(when), down(max(value, _LOWEST))) for when, value in points],
        colour,
        1.6,
        0.85,
    )
