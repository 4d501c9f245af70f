"""Builds a self-contained HTML page, which needs no other file and no network.

A content security policy lets the page run its own two scripts, by their digests,
and load nothing at all. All text from outside goes through :func:`text`.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from fedview.report.drawable import (
    NARROW,
    WIDE,
    extents,
    make_finite,
    without_overlaps,
)
from fedview.report.narrow import WIDTH, narrow
from fedview.report.theme import themes

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<main>
{intro}
<nav aria-label="Sections">{links}</nav>
{sections}
<footer>Written by latecomer.</footer>
</main>
{scripts}
</body>
</html>
"""
_SECTION = """<section id="{anchor}">
<h2>{title}</h2>
<p class="lead">{lead}</p>
{parts}
</section>"""
_PLOT = """<figure class="plot" role="img" aria-label="{label}">
<div style="height:{height}px"></div>
<script type="application/json">{data}</script>
</figure>"""


NARROW_TABLE = 366  # CSS pixels for a table on a page of 420
_CHARACTER, _PADDING = 7.6, 14.0  # of a cell
_NAME = 12  # characters of a cell with words that stay on a line
_TAG, _SEAM = re.compile("<[^>]*>"), re.compile(r"([:,/_=])(?=\w)")


class Section(NamedTuple):
    """A part of the page, under a heading."""

    anchor: str
    title: str
    lead: str  # HTML
    parts: Sequence[str]  # HTML


def page(title: str, intro: str, sections: Sequence[Section]) -> str:
    """Returns the page as HTML."""
    body = "\n".join(
        _SECTION.format(**s._replace(parts="\n".join(s.parts))._asdict())
        for s in sections
    )
    links = "".join(f'<a href="#{s.anchor}">{text(s.title)}</a>' for s in sections)
    scripts = _scripts(with_plots='<figure class="plot"' in body)
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src 'unsafe-inline'; img-src data: blob:; script-src {allowed}"
    )
    return _PAGE.format(
        policy=policy,
        title=text(title),
        css=_static("page.css"),
        intro=intro,
        links=links if len(sections) > 1 else "",
        sections=body,
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _scripts(*, with_plots: bool) -> list[str]:
    own = _static("page.js")
    if not with_plots:
        return [own]
    from plotly.offline import get_plotlyjs

    own = own.replace("{/* themes */}", json.dumps(themes()))
    return [get_plotlyjs(), own.replace("0 /* narrow */", str(WIDTH))]


def _static(name: str) -> str:
    return (files("fedview.report") / "static" / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


# ---------------------------------------------------------------------- building blocks


def text(value: object) -> str:
    """Escapes text for HTML, also for attributes."""
    return html.escape(str(value), quote=True)


def plot(figure: "Figure", label: str) -> str:
    """Makes a plot, with a layout for wide pages and one for narrow pages.

    Its data cannot end the script element that they stand in.
    """
    make_finite(figure)
    content, ends = json.loads(str(figure.to_json())), extents(figure)
    names = [trace for trace in content["data"] if _is_in_legend(trace)]
    entries = len(names) if len(content["data"]) > 1 else 0
    content["narrow"] = narrow(content["layout"], entries)
    without_overlaps(content["layout"], ends, WIDE)
    without_overlaps(content["narrow"], ends, NARROW)
    data = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    height = figure.layout.height
    return _PLOT.format(label=text(label), height=height, data=data)


def _is_in_legend(trace: Mapping[str, Any]) -> bool:
    return bool(trace.get("name")) and trace.get("showlegend") is not False


def note(sentence: str) -> str:
    """Makes a remark below a plot; ``sentence`` is HTML."""
    return f'<p class="note">{sentence}</p>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: str = "") -> str:
    """Makes a table of HTML cells; an ``r`` in ``numbers`` right-aligns that column.

    On a narrow page, each row of a table that does not fit becomes a list of its cells.
    """
    rows = [*rows]
    columns = [[*map(_plain, cells)] for cells in zip(head, *rows, strict=True)]
    marks = [*map(_mark, columns, numbers.ljust(len(head)))]
    classes = [f' class="{mark}"' if mark else "" for mark in marks]
    stacks = sum(map(_least_width, columns, marks)) > NARROW_TABLE
    labels = [f' data-label="{c[0]}"' if stacks and c[0] else "" for c in columns]
    top = "".join(f"<th{c}>{h}</th>" for c, h in zip(classes, head, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{c}{d}>{_breakable(v) if m == 'w' else v}</td>"
            for m, c, d, v in zip(marks, classes, labels, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    kind = ' class="stacks"' if stacks else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _breakable(cell: str) -> str:
    """Returns long words with places where they may be broken."""
    return cell if "<" in cell else _SEAM.sub(r"\1<wbr>", cell)


def _mark(column: Sequence[str], mark: str) -> str:
    """Returns the class of a column: r for numbers, w for long words, or neither."""
    is_long = max(map(len, column[1:]), default=0) > _NAME
    return "r" if mark == "r" else "w" if is_long else ""


def _least_width(column: Sequence[str], mark: str) -> float:
    """Returns about how many pixels a column needs; long words may be broken."""
    words = max(map(len, column[0].split()), default=0)
    longest = max(map(len, column[1:]), default=0)
    width = max(words, _NAME if mark == "w" else longest)
    return _CHARACTER * width + _PADDING


def _plain(cell: str) -> str:
    """Returns a cell without tags."""
    return _TAG.sub("", cell)


def beside(*parts: str) -> str:
    """Places parts next to each other, if there is room."""
    return f'<div class="beside">{"".join(parts)}</div>'


def fold(title: str, body: str) -> str:
    """Makes a part that opens on a click; ``title`` and ``body`` are HTML."""
    return f"<details><summary>{title}</summary>{body}</details>"


def copyable(content: str) -> str:
    """Shows plain text with a button that copies it."""
    return (
        '<div class="copyable"><button type="button" class="copy">Copy</button>'
        f"<pre>{text(content)}</pre></div>"
    )
