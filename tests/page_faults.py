"""What is wrong with a page, told from its HTML alone, without a browser.

Every page that any test makes is looked at (``tests/conftest.py``).
"""

import base64
import html
import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from fedview.report.drawable import NARROW, WIDE, words

PAGE, PHONE = 1084, 366  # pixels for a table on pages of 1,400 and 420
_CHARACTER = 7.0  # pixels of 14 px text, on average
_FIGURE = re.compile(
    r'<figure class="plot".*?aria-label="(.*?)".*?'
    r'<script type="application/json">(.*?)</script>',
    re.DOTALL,
)
_TABLE = re.compile(r"<table(.*?)>(.*?)</table>", re.DOTALL)
_CELL = re.compile(r"<t[hd]([^>]*)>(.*?)</t[hd]>", re.DOTALL)


class Checked(str):
    """A template of pages; it makes none that has a fault."""

    def format(self, *args: object, **parts: object) -> str:
        """Returns the page."""
        made = super().format(*args, **parts)
        found = faults_of(made)
        assert not found, "\n".join(found)
        return made


def faults_of(page: str) -> list[str]:
    """Says in a sentence each what is wrong with a page."""
    body = page[: page.index("</main>")]
    found: list[str] = []
    for name, text in _FIGURE.findall(body):
        content = json.loads(text, parse_constant=_refuse)
        found += [f"figure {name!r}: {each}" for each in set(_of_figure(content))]
    for kind, content in _TABLE.findall(body):
        found += _of_table(kind, content)
    return [*found, *_long_numbers(body)]


def _refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def _of_figure(content: Any) -> Iterator[str]:
    layout = content["layout"]
    ends: dict[str, tuple[float, float]] = {}
    for trace in content["data"]:
        for letter in "xy":
            values = numbers(trace.get(letter))
            name = trace.get(f"{letter}axis", letter)
            axis = layout.get(f"{letter}axis{name[1:]}", {})
            known = values[np.isfinite(values)]
            if np.isinf(values).any():
                yield f"a coordinate {letter} is infinite"
            if axis.get("type") == "log" and (known <= 0).any():
                yield f"a coordinate {letter} has no logarithm"
            if known.size:
                low, high = ends.get(name, (np.inf, -np.inf))
                ends[name] = min(low, known.min()), max(high, known.max())
            for bars in ("array", "arrayminus"):
                each = numbers(trace.get(f"error_{letter}", {}).get(bars))
                if np.isinf(each).any() or (each < 0).any():
                    yield f"an error bar of {letter} is {each.min()}"
        for name in ("base", "z"):
            if np.isinf(numbers(trace.get(name))).any():
                yield f"{name} is infinite"
        x = numbers(trace.get("x"))
        is_line = "lines" in trace.get("mode", "") and trace.get("fill") != "toself"
        if is_line and (np.diff(x[np.isfinite(x)]) < 0).any():
            yield f"the line {trace.get('name')!r} runs backwards"
    for which, width in (("layout", WIDE), ("narrow", NARROW)):
        for name, axis in content[which].items():
            first, *last = axis.get("range") or (0, 1) if "axis" in name else (0, 1)
            if None in (first, *last) or last == [first]:
                yield f"{name} goes from {first} to {last}"
        drawn = list(words(content[which], ends, width))
        for (one, box), (other, box_) in combinations(drawn, 2):
            if box.overlaps(box_):
                yield f"{one['text']!r} is over {other['text']!r} at {width} px"
        for one, box in drawn:
            if box.left < 0 or box.right > width:
                yield f"{one['text']!r} leaves a figure of {width} px"


def numbers(values: Any) -> Any:
    """The numbers of a column, as Plotly packs them; none of a column of names."""
    if isinstance(values, dict) and "bdata" in values:
        return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).astype(
            float
        )
    try:
        known = [np.nan if v is None else v for v in np.ravel(values).tolist()]
        return np.array(known, float)
    except (TypeError, ValueError):
        return np.empty(0)


def _of_table(kind: str, content: str) -> Iterator[str]:
    rows = [row for each in content.split("</tr>") if (row := _CELL.findall(each))]
    columns = [*zip(*rows, strict=True)]
    heads = [_plain(head) for _, head in rows[0]]
    least = sum(_least(column) for column in columns)
    if least > PAGE:
        yield f"the table of {heads} needs {least:.0f} px"
    if least > PHONE and "stacks" not in kind:
        yield f"the table of {heads} needs {least:.0f} px, and does not stack"
    if "stacks" in kind and len(rows) > 1:
        for head, column in zip(heads, columns, strict=True):
            labels = {*re.findall('data-label="(.*?)"', "".join(a for a, _ in column))}
            labels = {*map(html.unescape, labels)}
            if labels != ({head} if head else set()):
                yield f"cells of {head!r} have the labels {labels}"


def _least(column: Any) -> float:
    """The pixels that a column cannot do without: numbers are never broken."""
    (_, head), *cells = [(attributes, _plain(cell)) for attributes, cell in column]
    words_ = [len(word) for word in head.split()]
    whole = [len(cell) for attributes, cell in cells if 'class="w"' not in attributes]
    return _CHARACTER * max([*words_, *whole, 1]) + 14


def _plain(cell: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", cell))


def _long_numbers(body: str) -> Iterator[str]:
    """Numbers with more digits than anybody reads, outside of settings and code."""
    text = re.sub(r"<(pre|script|code)\b.*?</\1>", "", body, flags=re.DOTALL)
    for number in re.findall(r"\d+\.\d{7,}", re.sub("<[^>]*>", " ", text)):
        yield f"{number} is not rounded"
