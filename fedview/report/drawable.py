"""Makes a figure drawable: no coordinate is infinite, and no word is over another."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Range = tuple[float, float]
WIDE = 1090  # CSS pixels of a figure on a page of full width
NARROW = 340  # on the narrowest phone
_CHARACTER, _LINE = 7.2, 17.0  # pixels of a word in a figure
_NUMBERS = ("x", "y", "base", "z")
_ERRORS = ("error_x", "error_y")


def make_finite(figure: "Figure") -> None:
    """Takes out of a figure what has no place on its axes.

    NaN stands for it, which leaves a gap: an infinite number in an array, and a number
    that is not positive on a logarithmic axis. A range without a length is left out.
    """
    for trace in figure.data:
        for name in _NUMBERS:
            if (values := getattr(trace, name, None)) is not None:
                letter = "y" if name == "base" and trace.orientation != "h" else name
                axis = _axis_of(figure, trace, "x" if letter == "base" else letter)
                is_log = axis is not None and axis.type == "log"
                trace[name] = _mask_unplaceable(values, is_log=is_log)
        for name in _ERRORS:
            if (
                bars := getattr(trace, name, None)
            ) is not None and bars.array is not None:
                bars.array = _mask_unplaceable(bars.array)
                if bars.arrayminus is not None:
                    bars.arrayminus = _mask_unplaceable(bars.arrayminus)
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        ends = axis.range
        if ends is not None and not (
            all(map(math.isfinite, ends)) and ends[0] != ends[1]
        ):
            axis.range = None


def _axis_of(figure: "Figure", trace: Any, letter: str) -> Any:
    name = getattr(trace, f"{letter}axis", None) or letter
    return None if letter == "z" else figure.layout[f"{letter}axis{name[1:]}"]


def _mask_unplaceable(values: Any, *, is_log: bool = False) -> Any:
    """Returns values with NaN for those that have no place; names stay as they are."""
    try:
        known = np.array([np.nan if v is None else v for v in np.ravel(values)], float)
    except (TypeError, ValueError):
        return values  # names of categories
    bad = ~np.isfinite(known) | (is_log & (known <= 0))
    if not bad.any():
        return values
    return np.where(bad, np.nan, known).reshape(np.shape(values))


# ----------------------------------------------------------------------------- words


class Box(NamedTuple):
    """A rectangle in pixels; y goes down."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        """Returns whether two rectangles have a part in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def extents(figure: "Figure") -> dict[str, Range]:
    """Returns the least and the greatest number on each axis that has no range."""
    found: dict[str, Range] = {}
    for each in (*figure.data, *figure.layout.annotations):
        for letter in "xy":
            name = getattr(each, f"{letter}axis", None) or letter
            name = getattr(each, f"{letter}ref", None) or name
            try:
                known = np.array(getattr(each, letter, None), float).ravel()
            except (TypeError, ValueError):
                continue
            known = known[np.isfinite(known)]
            if known.size:
                low, high = found.get(name, (np.inf, -np.inf))
                ends = min(low, float(known.min())), max(high, float(known.max()))
                found[name] = ends
    return found


def without_overlaps(
    layout: dict[str, Any], ends: Mapping[str, Range], width: float
) -> None:
    """Leaves out words that would stand over others; those at an edge turn inwards.

    What a word says is still shown when the mouse is over its place.

    Args:
        layout: of a figure, as plain data.
        ends: what :func:`extents` returned.
        width: of the figure in pixels.
    """
    kept: list[Box] = []
    for note, box in words(layout, ends, width):
        if box.left < 0 or box.right > width:
            note["xanchor"] = "left" if box.left < 0 else "right"
            [box] = [b for n, b in words(layout, ends, width) if n is note]
        if any(box.overlaps(other) for other in kept):
            note["text"] = ""
        else:
            kept.append(box)


def words(
    layout: Mapping[str, Any], ends: Mapping[str, Range], width: float
) -> Iterator[tuple[dict[str, Any], Box]]:
    """Yields the annotations that have a text, each with its rectangle."""
    margin = layout["margin"]
    plot = (
        width - margin["l"] - margin["r"],
        layout["height"] - margin["t"] - margin["b"],
    )
    for note in layout.get("annotations", []):
        if note.get("x") is None or note.get("y") is None:
            note["text"] = ""  # of a line whose place is not a number
        if not note.get("text"):
            continue
        lines = note["text"].split("<br>")
        across = _CHARACTER * max(map(len, lines))
        x = margin["l"] + plot[0] * _share(layout, ends, note, "x")
        y = margin["t"] + plot[1] * (1 - _share(layout, ends, note, "y"))
        left = x - across * {"left": 0.0, "right": 1.0}.get(note.get("xanchor"), 0.5)
        up = {"top": 0.0, "bottom": 1.0}.get(note.get("yanchor"), 0.5)
        top = y - _LINE * len(lines) * up
        yield note, Box(left, top, left + across, top + _LINE * len(lines))


def _share(
    layout: Mapping[str, Any],
    ends: Mapping[str, Range],
    note: Mapping[str, Any],
    letter: str,
) -> float:
    """Returns where a note stands on the whole plot, 0 to 1 from left or below."""
    name, _, domain = note.get(f"{letter}ref", "paper").partition(" ")
    value = float(note[letter])
    if name == "paper":
        return value
    axis = layout.get(f"{letter}axis{name[1:]}", {})
    low, high = axis.get("domain", (0.0, 1.0))
    if not domain:
        first, last = axis.get("range") or ends.get(name, (0.0, 1.0))
        if axis.get("rangemode") == "tozero":
            first, last = min(first, 0.0), max(last, 0.0)
        value = (value - first) / ((last - first) or 1.0)
    return float(low + (high - low) * value)
