"""The curves of all settings as one SVG, readable on light and dark ground."""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

import numpy as np

from benchmarks.asynchrony.campaign import Campaign
from benchmarks.asynchrony.contenders import BUFFERED, MIXED, OURS, SYNCHRONOUS
from benchmarks.asynchrony.course import Outcome
from fedview.report import theme

Axis = Callable[[float], float]  # where a value lies on the page
COLOURS = {
    SYNCHRONOUS: theme.VERMILION,
    BUFFERED: theme.GREEN,
    MIXED: theme.ORANGE,
    OURS: theme.BLUE,
}
NAMES = {"log_normal": "Log-normal, σ = 1", "pareto": "Pareto, 1.5"}
_WIDTH, _HEIGHT = 440, 300  # of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 16, 52, 40
_LOWEST, _POINTS = 0.5, 120
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#5b626e}"
    "@media(prefers-color-scheme:dark){text{fill:#a0a7b4}}"
)


def draw(campaigns: Sequence[Campaign], seeds: Sequence[int]) -> str:
    """A panel for each setting, two in a row."""
    width = _WIDTH * min(len(campaigns), 2)
    height = _HEIGHT * math.ceil(len(campaigns) / 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><style>{_STYLE}</style>'
    ]
    for place, campaign in enumerate(campaigns):
        down, across = divmod(place, 2)
        where = f"{across * _WIDTH} {down * _HEIGHT}"
        parts.append(f'<g transform="translate({where})">')
        parts += _panel(campaign, seeds)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(campaign: Campaign, seeds: Sequence[int]) -> Iterator[str]:
    setting = campaign.setting
    rows = {n: o for n, o in campaign.done(seeds).items() if n in COLOURS}
    end = max((o.seconds[-1] for each in rows.values() for o in each), default=1.0)
    top = math.ceil(20 * max(setting.problem.targets) + 1) / 20

    def across(when: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * when / end

    def down(value: float) -> float:
        share = (value - _LOWEST) / (top - _LOWEST)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    title = f"{NAMES[setting.speed]}, {setting.flight:,} training at a time"
    yield _text(_LEFT, 16, title, "start")
    for place, name in enumerate(rows):
        x = _LEFT + 96 * place
        yield f'<path d="M{x} 32h14" stroke="{COLOURS[name]}" stroke-width="3"/>'
        yield _text(x + 18, 36, name, "start")
    for value in np.arange(_LOWEST, top + 0.01, 0.1):
        y = down(float(value))
        yield _line(_LEFT, y, _WIDTH - _RIGHT, y)
        yield _text(_LEFT - 6, y + 4, f"{value:.1f}", "end")
    for target in setting.problem.targets:
        y = down(target)
        yield _line(_LEFT, y, _WIDTH - _RIGHT, y, ' stroke-dasharray="2 3"')
    step = 10 ** math.floor(math.log10(end))
    step *= 0.5 if end / step < 3 else 1
    for when in np.arange(0, end, step):
        yield _text(across(float(when)), _HEIGHT - _BOTTOM + 18, f"{when:g}", "middle")
    yield _text(_WIDTH / 2, _HEIGHT - 4, "time, in tasks of a median device", "middle")
    for name, outcomes in rows.items():
        for outcome in outcomes:
            yield _curve(COLOURS[name], outcome, across, down)


def _curve(colour: str, outcome: Outcome, across: Axis, down: Axis) -> str:
    points = list(zip(outcome.middle, outcome.held, strict=True))
    points = points[:: max(1, len(points) // _POINTS)]
    shown = [max(value, _LOWEST) for _, value in points]
    path = " ".join(
        f"{across(when):.1f},{down(value):.1f}"
        for (when, _), value in zip(points, shown, strict=True)
    )
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" '
        'stroke-opacity=".8"/>'
    )


def _line(x: float, y: float, to_x: float, to_y: float, more: str = "") -> str:
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="{theme.GREY}" stroke-opacity=".4"{more}/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"
