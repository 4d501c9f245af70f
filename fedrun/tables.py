"""The book of bytes as tables for a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fedcore.text import printable
from fedrun.traffic import (
    OTHERS,
    WAYS,
    Lane,
    Load,
    Traffic,
    by_client,
    in_order,
    of_all,
    total,
)

MOST_CLIENTS = 10
_DENSE = 4  # bytes of an uncompressed value


def size(count: float) -> str:
    """Bytes in three digits: ``1.23 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def less(load: Load, dim: int) -> str:
    """How many times less than dense float32 the payloads are."""
    dense = _DENSE * dim * load.transfers
    if not dense or not load.payload:
        return ""
    if dense <= load.payload:
        return "no less"
    return f"{dense / load.payload:.3g} times less"


def saving(lanes: Mapping[Lane, Load], dim: int) -> str:
    """The same of all payloads, both ways."""
    return less(total(lanes.values()), dim)


def traffic_tables(
    traffic: Traffic, names: Mapping[str, str], dim: int
) -> list[RenderableType]:
    """Bytes of all, and of the clients with the most of them.

    Args:
        traffic: the book.
        names: of clients, by their ids.
        dim: values of the model.
    """
    lanes = traffic.lanes()
    if not lanes:
        return []
    line = overhead_line(lanes)
    return [
        Text(""),
        totals_table(lanes, dim),
        *([Text(line, style="dim")] if line else []),
        Text(""),
        clients_table(lanes, names, dim),
    ]


def totals_table(lanes: Mapping[Lane, Load], dim: int) -> Table:
    """Bytes of all clients by direction and codec; ``dim``: values of the model."""
    table = _table("bytes", "codec", "payloads", lanes, "than float32")
    sums = of_all(lanes)
    for way in WAYS:
        own = {lane: load for lane, load in sums.items() if lane.way == way}
        for place, lane in enumerate(sorted(own, key=in_order)):
            load = own[lane]
            row = ["" if place else way, lane.codec, *_cells(load, lanes)]
            table.add_row(*row, less(load, dim))
        if len(own) > 1:
            load = total(own.values())
            row = ["", "all", *_cells(load, lanes)]
            table.add_row(*row, less(load, dim), style="bold", end_section=True)
    return table


def clients_table(
    lanes: Mapping[Lane, Load],
    names: Mapping[str, str],
    dim: int,
    most: int = MOST_CLIENTS,
) -> Table:
    """The same for each client; those with the most bytes, if they are many."""
    table = _table("client", "way", "codec", lanes, "than float32")
    groups = by_client(lanes)
    for cid in busiest(lanes, most):
        name = Text(printable(names.get(cid, cid)) if cid != OTHERS else "others")
        seen: set[str] = set()
        for lane in sorted(groups[cid], key=in_order):
            load = groups[cid][lane]
            first = lane.way not in seen
            table.add_row(
                Text() if seen else name,
                lane.way if first else "",
                lane.codec,
                *_cells(load, lanes)[1:],
                less(load, dim),
            )
            seen.add(lane.way)
    if len(groups) > most:
        table.add_row(f"and {len(groups) - most} more", style="dim")
    return table


def busiest(lanes: Mapping[Lane, Load], most: int) -> Sequence[str]:
    """At most so many clients, those with the most bytes."""
    sums: dict[str, int] = {}
    for lane, load in lanes.items():
        sums[lane.cid] = sums.get(lane.cid, 0) + max(load.framed, load.payload)
    return sorted(sums, key=lambda cid: (-sums[cid], cid))[:most]


def overhead(lanes: Mapping[Lane, Load]) -> float | None:
    """Bytes of messages that are no payload, both ways, for each update.

    An update is a payload that went up. Returns None without updates or messages.
    """
    updates = sum(load.transfers for lane, load in lanes.items() if lane.way == "up")
    if not updates or not _is_framed(lanes):
        return None
    sums = total(lanes.values())
    return (sums.framed - sums.payload) / updates


def overhead_line(lanes: Mapping[Lane, Load]) -> str:
    """The same in words; empty if there is nothing to say."""
    found = overhead(lanes)
    if found is None:
        return ""
    return f"messages hold {found:,.0f} bytes beside payload for each update"


def _table(
    first: str,
    second: str,
    third: str,
    lanes: Mapping[Lane, Load],
    last: str,
) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    columns = [first, second, third, "payload"]
    columns += ["in messages"] if _is_framed(lanes) else []
    for place, column in enumerate([*columns, last]):
        is_text = place < 2 or column == "codec"
        table.add_column(column, justify="left" if is_text else "right")
    table.columns[-1].no_wrap = True
    return table


def _cells(load: Load, lanes: Mapping[Lane, Load]) -> list[str]:
    """Payloads, their bytes, and those of the messages."""
    cells = [f"{load.transfers:,}" if load.transfers else ""]
    cells.append(size(load.payload) if load.payload else "")
    return [*cells, size(load.framed)] if _is_framed(lanes) else cells


def _is_framed(lanes: Mapping[Lane, Load]) -> bool:
    """Whether there were messages; a simulation has none."""
    return any(load.framed for load in lanes.values())
