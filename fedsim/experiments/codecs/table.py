"""The comparison in the terminal."""

import math
import re

from rich import box
from rich.table import Table
from rich.text import Text

from fedrun import units
from fedsim.experiments.codecs.comparison import Comparison

CAPTION = (
    "An uplink has an error memory around it where it is a contraction, unless it is "
    "written as YAML. Bytes are for each update, down with those of lost tasks; times "
    "are medians, both directions together."
)

HEAD = ("bytes up", "bytes down", "times fewer", "encode ms", "decode ms")


def codecs_table(comparison: Comparison, *, narrow: bool = False) -> Table:
    """A row for each pair, in the order in which they were asked for.

    On a narrow screen names are broken between their settings.
    """
    table = Table(
        title=Text(heading(comparison)),
        title_justify="left",
        caption=Text(CAPTION),
        caption_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    table.add_column("uplink", overflow="fold")
    table.add_column("downlink", overflow="fold")
    table.add_column(Text(comparison.metric), justify="right", no_wrap=True)
    for name in HEAD:
        table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    table.add_column("")
    for place, row in enumerate(comparison.rows):
        style = "bold green" if place == comparison.taken else ""
        names = [_broken(name) if narrow else name for name in row.pair.names]
        cells = [Text(cell) for cell in (*names, *numbers(comparison, place))]
        table.add_row(*cells, Text(mark(comparison, place)), style=style)
    return table


def _broken(name: str) -> str:
    return re.sub("(?<=[:,])(?=.)", "\n", name)


def heading(comparison: Comparison) -> str:
    """The title: the app, how many pairs, versions and seeds, and the model's size."""
    seeds = units.counted(comparison.seeds, "seed")
    return (
        f"{comparison.app}: {units.counted(len(comparison.rows), 'pair')} of codecs, "
        f"{units.counted(comparison.versions, 'version')}, {seeds}, "
        f"{units.counted(comparison.dim, 'value')} in the model"
    )


def numbers(comparison: Comparison, place: int) -> list[str]:
    """The cells of a row behind its names."""
    row = comparison.rows[place]
    return [
        _value(comparison, place),
        _nbytes(row.bytes_up),
        _nbytes(row.bytes_down),
        _digits(comparison.fewer(row)),
        f"{row.times.encode:.2f}",
        f"{row.times.decode:.2f}",
    ]


def mark(comparison: Comparison, place: int) -> str:
    """The remark behind a row: ``take``, ``front`` or nothing."""
    if place == comparison.taken:
        return "take"
    return "front" if comparison.front[place] else ""


def _value(comparison: Comparison, place: int) -> str:
    value = comparison.values[place]
    return f"{value:.4f}" if math.isfinite(value) else "nothing learnt"


def _nbytes(nbytes: float) -> str:
    return f"{nbytes:,.0f}" if math.isfinite(nbytes) else "–"


def _digits(value: float) -> str:
    return units.digits(value) if math.isfinite(value) else "–"
