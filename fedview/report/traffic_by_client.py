"""The part of the section on bytes that the server counted, by client and codec."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedrun import units
from fedrun.traffic import (
    CONTROL,
    OTHERS,
    WAYS,
    Lane,
    Load,
    busiest,
    by_codec,
    is_framed,
    of_busiest,
    of_way,
    overhead,
    total,
)
from fedview.report import theme
from fedview.report.page import fold, note, plot, table, text
from fedview.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_DRAWN, MOST_ROWS = 30, 200  # clients
_FRAMED = (
    "The server counts bytes as messages pass. Payload is what a codec made, by the "
    "format that its first bytes name; a payload that is sent twice counts twice. In "
    "messages are the bytes that gRPC took and gave, with the five bytes before each "
    "message; control messages carry no payload. HTTP/2, TLS, TCP and IP add to this."
)
_SIMULATED = (
    "The payloads of a simulation are real, by the format that their first bytes name; "
    "what a transport would add is not simulated."
)


def parts(results: Results) -> Iterator[str]:
    """Yields the parts on counted bytes; none if the run counted none."""
    lanes = results.lanes
    if not lanes:
        return
    names = {**results.names, OTHERS: "others"}
    yield plot(bytes_figure(lanes, names), "Payload bytes of clients by codec")
    yield _totals(lanes, results.dim)
    framed = is_framed(lanes)
    yield note((_FRAMED if framed else _SIMULATED) + _overhead(lanes))
    if framed and (missing := _missing(results, lanes)):
        yield note(missing)
    clients = {lane.cid for lane in lanes}
    title = f"Bytes of {units.amount(len(clients - {OTHERS}), 'client')}"
    if len(clients) > MOST_ROWS:
        title += f" (the {MOST_ROWS} with the most)"
    yield fold(title, _clients(lanes, names, results.dim))


def bytes_figure(lanes: Mapping[Lane, Load], names: Mapping[str, str]) -> "Figure":
    """Draws the payload of each client by codec: up to the left, down to the right."""
    from plotly.graph_objects import Bar, Figure

    carrying = {k: v for k, v in lanes.items() if k.codec != CONTROL}
    shown = list(reversed(busiest(carrying, MOST_DRAWN)))
    size = max((load.payload for load in carrying.values()), default=0)
    unit = units.byte_unit(size)
    labels = [theme.label(names.get(cid, cid)) for cid in shown]
    figure = Figure()
    drawn: set[str] = set()
    for way, codec in sorted({(lane.way, lane.codec) for lane in carrying}):
        sign = -1 if way == "up" else 1
        loads = [carrying.get(Lane(cid, way, codec), Load()) for cid in shown]
        bars = Bar(
            x=[sign * load.payload / unit.size for load in loads],
            y=labels,
            name=codec,
            legendgroup=codec,
            showlegend=codec not in drawn,
            orientation="h",
            marker=theme.of_codec(codec),
            customdata=[[units.unbroken_bytes(load.payload)] for load in loads],
            hovertemplate=f"%{{y}}: %{{customdata[0]}} {way}, {codec}<extra></extra>",
        )
        figure.add_trace(bars)
        drawn.add(codec)
    figure.update_xaxes(
        title_text=f"up ← payload ({unit.name}) → down",
        **_both_ways(carrying, shown, unit),
    )
    height = theme.rows_height(len(shown))
    return theme.dress(figure, height, barmode="relative")


def _both_ways(
    lanes: Mapping[Lane, Load], shown: Sequence[str], unit: units.Unit
) -> dict[str, Any]:
    """Returns ticks that count from the middle to both sides."""
    sums = dict.fromkeys(((cid, way) for cid in shown for way in WAYS), 0)
    for lane, load in lanes.items():
        if (lane.cid, lane.way) in sums:
            sums[lane.cid, lane.way] += load.payload
    most = max(sums.values(), default=0) / unit.size or 1.0
    step = 10.0 ** math.floor(math.log10(most))
    step *= next(k for k in (0.2, 0.5, 1.0, 2.0) if most <= 5 * k * step)
    right = [step * k for k in range(int(most / step) + 2)]
    ticks = [-place for place in reversed(right[1:])] + right
    return {"tickvals": ticks, "ticktext": [units.digits(abs(tick)) for tick in ticks]}


def _totals(lanes: Mapping[Lane, Load], dim: int) -> str:
    rows = []
    for way, loads in by_codec(lanes).items():
        rows += [
            (way, text(codec), *_cells(load, dim)) for codec, load in loads.items()
        ]
        rows.append((way, "<b>all</b>", *_cells(total(loads.values()), dim)))
    return table(("direction", "codec", *_HEAD), rows, "  rrrr")


def _clients(lanes: Mapping[Lane, Load], names: Mapping[str, str], dim: int) -> str:
    rows = [
        (
            text(names.get(lane.cid, lane.cid)),
            lane.way,
            text(lane.codec),
            *_cells(load, dim),
        )
        for lane, load in of_busiest(lanes, MOST_ROWS)
    ]
    return table(("client", "direction", "codec", *_HEAD), rows, "   rrrr")


_HEAD = ("payloads", "payload", "in messages", "smaller by")


def _cells(load: Load, dim: int) -> tuple[str, ...]:
    return (
        f"{load.transfers:,}" if load.transfers else "–",
        units.unbroken_bytes(load.payload) if load.payload else "–",
        units.unbroken_bytes(load.framed) if load.framed else "–",
        units.times(load.payload, 4 * dim * load.transfers),
    )


def _missing(results: Results, lanes: Mapping[Lane, Load]) -> str:
    """Says how many bytes are missing, since a killed server lost its last counts."""
    lost = sum(
        max(0, results.summary[f"payload_{way}"] - of_way(lanes, way).payload)
        for way in WAYS
    )
    if not lost:
        return ""
    return (
        f"At least {units.unbroken_bytes(lost)} of payload are missing here and above: "
        "a server that is killed loses what it counted in its last two seconds."
    )


def _overhead(lanes: Mapping[Lane, Load]) -> str:
    found = overhead(lanes)
    if found is None:
        return ""
    return (
        f" Messages hold {found:,.0f} bytes beside payload for each update, both ways, "
        "requests and heartbeats included."
    )
