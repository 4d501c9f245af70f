"""A page as rows and paragraphs, and those figures in them that no result has."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tests.docs.figures.series import NUMBER, Pool
from tests.docs.pages import ROOT, prose


class Unit(NamedTuple):
    """A row of a table, or a paragraph, under its heading."""

    heading: str
    text: str


class Quote(NamedTuple):
    """Where a page quotes a part of the results.

    Attributes:
        heading: how the heading begins, which is "chapter / first cell" in a table.
        begins: how the row or paragraph begins; nothing means any below the heading.
        pool: the figures that it may quote.
        said: patterns of what is no measurement: settings, sizes, names.
    """

    heading: str
    begins: str
    pool: Pool
    said: Sequence[str] = ()


def units(page: str) -> Iterator[Unit]:
    """The page without code; a row stands under the first cell of its table too."""
    heading, lines = "", list[str]()
    table: str | None = None
    for line in [*prose(ROOT / page).splitlines(), ""]:
        is_row, is_item = line.startswith("|"), re.match(r"\s*- ", line)
        if (not line or line.startswith("#") or is_row or is_item) and lines:
            yield Unit(heading, " ".join(lines))
            lines = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif is_row and table is None:  # the names of the columns
            table = line.split("|")[1].strip()
        elif is_row and not re.fullmatch(r"[|\s:-]+", line):
            yield Unit(f"{heading} / {table}", line)
        elif not is_row:
            table = None
            lines += [line.strip()] if line else []


def plain(text: str) -> str:
    """Without code and links' targets, and without the name of a row of figures."""
    text = re.sub(r"<!--.*?-->|`[^`]*`|\]\([^)]*\)|\bdecision \d+", " ", text)
    cells = text.split("|", 2)[2] if text.startswith("| ") else text
    return cells if NUMBER.search(cells) else text


def unsaved(
    page: str,
    quotes: Sequence[Quote],
    said: Sequence[str],
    exact: Collection[str] = (),
) -> list[str]:
    """Each figure that stands in no result, with where it is.

    Args:
        page: its path.
        quotes: what it quotes; the first that fits a row or paragraph counts.
        said: patterns of what is no measurement, anywhere on the page.
        exact: rows that were made from the results, letter by letter.
    """
    found = []
    for unit in units(page):
        if unit.text in exact:
            continue
        quote = next((quote for quote in quotes if _fits(quote, unit)), None)
        text = plain(unit.text)
        for pattern in [*(quote.said if quote else ()), *said]:
            text = re.sub(pattern, " ", text)
        foreign = quote.pool.foreign(text) if quote else NUMBER.findall(text)
        if foreign:
            found.append(f"{unit.heading}: {unit.text[:70]}...: {', '.join(foreign)}")
    return found


def _fits(quote: Quote, unit: Unit) -> bool:
    text = unit.text.lstrip("|*- ")
    return unit.heading.startswith(quote.heading) and text.startswith(quote.begins)
