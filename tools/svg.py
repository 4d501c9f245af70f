"""SVG pictures for pages: boxes, arrows, words and axes for light and dark backgrounds.

A picture paints its own background, so that it is readable on a page of any colour, and
follows ``prefers-color-scheme``. Words are drawn in the reader's own font, so
:func:`width_of` only estimates their length.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal, NamedTuple

Anchor = Literal["start", "middle", "end"]
SIZE = 14  # pixels of normal text; pages show pictures at 700 pixels and more
LINE = 19  # pixels from one line of words to the next
_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif"
_LIGHT = {
    "ground": "fill:#ffffff",
    "panel": "fill:#f4f5f7;stroke:#e4e5e8",
    "box": "fill:#ffffff;stroke:#b9bdc5",
    "word": "fill:#2a2e35",
    "faint": "fill:#5b626e",
    "line": "stroke:#6b727e",
    "grid": "stroke:#d6d9de",
    "head": "fill:#6b727e",
}
_DARK = {
    "ground": "fill:#181b20",
    "panel": "fill:#1f2329;stroke:#30353e",
    "box": "fill:#2a2f37;stroke:#4b525e",
    "word": "fill:#e6e8ec",
    "faint": "fill:#a9b0bc",
    "line": "stroke:#939aa6",
    "grid": "stroke:#363c46",
    "head": "fill:#939aa6",
}


class Point(NamedTuple):
    """A place on the picture, in pixels from its upper left corner."""

    x: float
    y: float


def document(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Returns a whole picture.

    Args:
        width: the width in pixels; a page may show it larger or smaller.
        height: the height in pixels.
        title: the description for screen readers.
        parts: the elements, the lowest first.
    """
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    whole = f'width="{width:g}" height="{height:g}" rx="8"'
    lines = [
        head,
        f"<title>{escape(title)}</title>",
        f"<style>{_style()}</style>",
        f'<rect class="ground" {whole}/>',
        *parts,
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def text(
    at: Point,
    words: str,
    *,
    anchor: Anchor = "start",
    kind: str = "word",
    size: float = SIZE,
    bold: bool = False,
) -> str:
    """Returns a line of words; ``at`` is on its base line."""
    place = f'x="{at.x:g}" y="{at.y:g}" text-anchor="{anchor}"'
    weight = ' font-weight="600"' if bold else ""
    font = f' font-size="{size:g}"' if size != SIZE else ""
    return f'<text class="{kind}" {place}{font}{weight}>{escape(words)}</text>'


def rectangle(
    at: Point, width: float, height: float, kind: str, edge: str = "", radius: float = 8
) -> str:
    """Returns a rectangle with round corners; ``edge`` is a colour of its edge."""
    size = f'width="{width:g}" height="{height:g}" rx="{radius:g}"'
    style = f' style="stroke:{edge};stroke-width:2"' if edge else ""
    return f'<rect class="{kind}" x="{at.x:g}" y="{at.y:g}" {size}{style}/>'


def line(start: Point, end: Point, kind: str = "grid", dashes: str = "") -> str:
    """Returns a straight line."""
    ends = f'x1="{start.x:g}" y1="{start.y:g}" x2="{end.x:g}" y2="{end.y:g}"'
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<line class="{kind}" {ends}{dashed}/>'


def curve(points: Sequence[Point], colour: str, width: float, alpha: float = 1) -> str:
    """Returns a line through all points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    stroke = f'stroke="{colour}" stroke-width="{width:g}" stroke-opacity="{alpha:g}"'
    return f'<polyline points="{path}" fill="none" {stroke} stroke-linejoin="round"/>'


def entry(at: Point, colour: str, words: str) -> str:
    """Returns an entry of a legend; ``at`` is the left end of its base line."""
    dash = f'<path d="M{at.x:g} {at.y - 5:g}h16" stroke="{colour}" stroke-width="4"/>'
    return dash + text(Point(at.x + 22, at.y), words)


def arrow(start: Point, end: Point) -> str:
    """Returns an arrow along one of the axes, with its head at ``end``."""
    across, down = end.x - start.x, end.y - start.y
    length = abs(across) + abs(down)
    along = Point(across / length, down / length)
    neck = Point(end.x - 9 * along.x, end.y - 9 * along.y)
    left = f"{neck.x - 5 * along.y:g},{neck.y + 5 * along.x:g}"
    right = f"{neck.x + 5 * along.y:g},{neck.y - 5 * along.x:g}"
    return (
        line(start, neck, "line")
        + f'<polygon class="head" points="{end.x:g},{end.y:g} {left} {right}"/>'
    )


def width_of(words: str, size: float = SIZE) -> float:
    """Returns an estimate of the width of a line of words, in pixels."""
    return sum(_share(letter) for letter in words) * size


def _share(letter: str) -> float:
    if letter in "iljtfrI.,:;'|()! ":
        return 0.32
    return 0.85 if letter in "mwMWKN%" else 0.57


def _style() -> str:
    common = (
        f"text{{font-family:{_FONT};font-size:{SIZE}px}}"
        ".line{stroke-width:1.6}.panel,.box{stroke-width:1.2}"
    )
    dark = _rules(_DARK)
    return f"{common}{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{dark}}}"


def _rules(colours: dict[str, str]) -> str:
    return "".join(f".{name}{{{style}}}" for name, style in colours.items())
