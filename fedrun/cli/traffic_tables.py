"""The bytes of a run as a table for a terminal."""

from collections.abc import Mapping

from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from fedrun.traffic import (
    Lane,
    Load,
    by_codec,
    is_framed,
    overhead,
    total,
)
from fedrun.units import in_bytes

_DENSE = 4  # bytes of an uncompressed value


def less(load: Load, dim: int) -> str:
    """Says how many times smaller the payloads are than dense float32."""
    dense = _DENSE * dim * load.transfers
    if not dense or not load.payload:
        return ""
    if dense <= load.payload:
        return "no less"
    return f"{dense / load.payload:.3g} times less"


def saving(lanes: Mapping[Lane, Load], dim: int) -> str:
    """Says how many times smaller all payloads are than dense float32."""
    return less(total(lanes.values()), dim)


def bytes_of_all(lanes: Mapping[Lane, Load], dim: int) -> list[RenderableType]:
    """Makes the table of all clients' bytes, and the line below it, if there are any.

    Args:
        lanes: the bytes that were counted.
        dim: values of the model.
    """
    if not lanes:
        return []
    line = overhead_line(lanes)
    below = [Text(line, style="dim")] if line else []
    return [totals_table(lanes, dim), *below, Text("")]


def totals_table(lanes: Mapping[Lane, Load], dim: int) -> Table:
    """Makes a table of all clients' bytes by direction and codec.

    ``dim`` is the number of the model's values.
    """
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    framed = ["in messages"] if is_framed(lanes) else []
    for column in ("bytes", "codec", "payloads", "payload", *framed, "than float32"):
        side: JustifyMethod = "left" if column in ("bytes", "codec") else "right"
        table.add_column(column, justify=side)
    table.columns[-1].no_wrap = True
    for way, loads in by_codec(lanes).items():
        for place, (codec, load) in enumerate(loads.items()):
            row = ["" if place else way, codec, *_cells(load, lanes)]
            table.add_row(*row, less(load, dim))
        if len(loads) > 1:
            load = total(loads.values())
            row = ["", "all", *_cells(load, lanes)]
            table.add_row(*row, less(load, dim), style="bold", end_section=True)
    return table


def overhead_line(lanes: Mapping[Lane, Load]) -> str:
    """Returns the overhead of messages in words; empty if it is unknown."""
    found = overhead(lanes)
    if found is None:
        return ""
    return f"messages hold {found:,.0f} bytes beside payload for each update"


def _cells(load: Load, lanes: Mapping[Lane, Load]) -> list[str]:
    """Returns the number of payloads, their bytes, and the bytes of messages."""
    cells = [f"{load.transfers:,}" if load.transfers else ""]
    cells.append(in_bytes(load.payload) if load.payload else "")
    return [*cells, in_bytes(load.framed)] if is_framed(lanes) else cells
