"""Lays a figure out for a phone: panels go below each other.

A page holds both layouts of each figure and takes the one for its width, also when it
is turned.
"""

from collections.abc import Mapping
from copy import deepcopy
from itertools import pairwise
from typing import Any, NamedTuple

WIDTH = 640  # CSS pixels; a page that is narrower takes this layout
_PANEL = 0.8  # the height of a panel, as a share of that on a wide page
_MARGINS = {"l": 44, "r": 10, "t": 30, "b": 48}
_BETWEEN, _TITLED = 22, 62  # pixels between panels; where an axis has its numbers there
_LEGEND_LINE = 20


class _Panel(NamedTuple):
    """A pair of axes: their names and their place."""

    x: str
    y: str
    left: float
    top: float
    share: float  # of the height


def narrow(layout: Mapping[str, Any], legend_entries: int = 0) -> dict[str, Any]:
    """Turns the layout for a wide page into that for a narrow one.

    Args:
        layout: of a figure, as plain data.
        legend_entries: names in its legend, for which there must be room.
    """
    found: dict[str, Any] = deepcopy(dict(layout))
    panels = _panels(found)
    room = found["height"] - found["margin"]["t"] - found["margin"]["b"]
    side_by_side = len({panel.left for panel in panels}) > 1
    found["margin"] = {**found["margin"], **_MARGINS}
    found["dragmode"] = False  # a finger scrolls the page
    legend = _LEGEND_LINE * legend_entries
    if not side_by_side:
        return _with_legend(found, room, legend)
    panels.sort(key=lambda panel: (panel.left, -panel.top))
    heights = [max(150.0, _PANEL * room * panel.share) for panel in panels]
    gaps = [
        _BETWEEN if a.left == b.left and _is_bare(found[a.x]) else _TITLED
        for a, b in pairwise(panels)
    ]
    whole = sum(heights) + sum(gaps)
    titles = {panel.top: found[panel.y].get("title") for panel in reversed(panels)}
    top = whole
    for panel, height, gap in zip(panels, heights, [*gaps, 0], strict=True):
        found[panel.x]["domain"] = [0.0, 1.0]
        found[panel.y]["domain"] = [max(0.0, (top - height) / whole), top / whole]
        found[panel.y]["showticklabels"] = True
        if titles[panel.top]:
            found[panel.y]["title"] = titles[panel.top]
        top -= height + gap
    return _with_legend(found, whole, legend)


def _with_legend(layout: dict[str, Any], plot: float, legend: float) -> dict[str, Any]:
    margin = layout["margin"]
    layout["height"] = round(plot + margin["t"] + margin["b"] + legend)
    if "legend" in layout:
        layout["legend"] = {**layout["legend"], "y": 1 + 22 / plot, "x": 0}
    return layout


def _panels(layout: Mapping[str, Any]) -> list[_Panel]:
    found = []
    for name, axis in layout.items():
        if not name.startswith("xaxis"):
            continue
        other = f"yaxis{axis.get('anchor', 'y')[1:]}"
        low, high = layout.get(other, {}).get("domain", (0.0, 1.0))
        left = axis.get("domain", (0.0, 1.0))[0]
        found.append(_Panel(name, other, left, high, high - low))
    return found


def _is_bare(axis: Mapping[str, Any]) -> bool:
    """Returns whether an axis has no numbers of its own."""
    return axis.get("showticklabels") is False
