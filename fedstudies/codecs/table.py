"""The comparison as tables, for the terminal and for the page."""

import math
import re

from rich.console import RenderableType

from fedrun import units
from fedstudies.codecs.comparison import Comparison
from fedstudies.tables import Cells

CAPTION = (
    "An uplink has an error memory around it where it is a contraction, unless it is "
    "written as YAML. Bytes are for each update, and those down include lost tasks; "
    "times are medians, both directions together."
)
NARROW = 120  # on a screen with fewer columns, names are broken

_HEAD = ("bytes up", "bytes down", "times fewer", "encode ms", "decode ms")


def codecs_table(comparison: Comparison, width: int) -> RenderableType:
    """The table for a screen with ``width`` columns: a row for each pair, in order.

    On a narrow screen the names are broken between their settings.
    """
    head = ["uplink", "downlink", comparison.metric]
    head += [name.replace(" ", "\n") for name in _HEAD]
    rows = []
    for place, row in enumerate(comparison.rows):
        names = row.pair.names
        if width < NARROW:
            names = _broken(names[0]), _broken(names[1])
        cells = [*names, *_numbers(comparison, place), _mark(comparison, place)]
        rows.append(cells)
    shown = Cells([*head, ""], rows, "  nnnnnn ")
    title = heading(comparison)
    return shown.on_screen(title=title, caption=CAPTION, highlighted=comparison.taken)


def codecs_html(comparison: Comparison) -> str:
    """The table for the page, with the times of both directions.

    The verdict stands beside the names, so that it is on the screen where the table is
    wider than the page.
    """
    rows = []
    for place, row in enumerate(comparison.rows):
        up, down = row.times
        cells = [
            *row.pair.names,
            _mark(comparison, place),
            *_numbers(comparison, place),
            f"{up.encode:.3f}, {down.encode:.3f}",
            f"{up.decode:.3f}, {down.decode:.3f}",
        ]
        rows.append(cells)
    times = ("encode up, down", "decode up, down")
    head = ["uplink", "downlink", "verdict", comparison.metric, *_HEAD, *times]
    return Cells(head, rows, "   nnnnnnnn").on_page()


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


def _numbers(comparison: Comparison, place: int) -> list[str]:
    """The cells of a row after its names."""
    row, value = comparison.rows[place], comparison.values[place]
    fewer = comparison.fewer(row)
    return [
        f"{value:.4f}" if math.isfinite(value) else "nothing learnt",
        _nbytes(row.bytes_up),
        _nbytes(row.bytes_down),
        units.digits(fewer) if math.isfinite(fewer) else "–",
        f"{row.times.encode:.2f}",
        f"{row.times.decode:.2f}",
    ]


def _mark(comparison: Comparison, place: int) -> str:
    """The remark at the end of a row: ``take``, ``front`` or nothing."""
    if place == comparison.taken:
        return "take"
    return "front" if comparison.front[place] else ""


def _nbytes(nbytes: float) -> str:
    return f"{nbytes:,.0f}" if math.isfinite(nbytes) else "–"
