"""The section on error memories of clients and server: what is still to be sent."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedrun import units
from fedview.report import theme
from fedview.report.downsample import Bins, Floats, downsample, floats
from fedview.report.page import Section, note, plot
from fedview.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_LINES = 12  # clients with a line each; more are shown as a band
MOST_POINTS = 200  # of a line
GAP_POINTS = 1000
_BANDS = ((0.0, 1.0, 0.13), (0.1, 0.9, 0.2), (0.25, 0.75, 0.28))


def section(results: Results) -> Section:
    """Makes the section on the norms of the memories."""
    updates, versions = results.updates, results.versions
    memory = floats(updates.get("memory_norm", []))
    gap = floats(versions.get("gap_norm", []))
    lead = (
        "What a compressor leaves out of a message is remembered and sent later. ‖e‖ "
        "is the norm of a client's memory, as reported with each update; ‖W − X‖, the "
        "distance of the public model from the exact one, is that of the server's. "
        "Neither should grow without end."
    )
    if not len(memory) and not len(gap):
        return Section("memory", "Error memories", "Nothing was sent yet.", [])
    notes = []
    if len(memory) and not memory.any():
        notes.append("The clients keep no error memory, or it was empty.")
    if len(gap) and not gap.any():
        notes.append("W equals X: the downlink carried everything.")
    parts = []
    if memory.any() or gap.any():
        parts.append(plot(memory_figure(results), "Norms of the error memories"))
        if memory.any() and len(set(updates["client"])) > MOST_LINES:
            notes.append(
                "Bands hold all, 80 % and half of the memories that were reported; the "
                "line is their median."
            )
    if notes:
        parts.append(note(" ".join(notes)))
    return Section("memory", "Error memories", lead, parts)


def memory_figure(results: Results) -> "Figure":
    """Draws clients on the left, the server on the right, unless they are always 0."""
    from plotly.subplots import make_subplots

    clock = units.time_unit(results.seconds)
    panels = []
    if floats(results.updates.get("memory_norm", [])).any():
        panels.append(
            (
                _clients(results, clock),
                f"time ({clock.name})",
                "memory ‖e‖ (units of the weights)",
            )
        )
    if floats(results.versions.get("gap_norm", [])).any():
        panels.append(
            ([_gap(results)], "version", "gap ‖W − X‖ (units of the weights)")
        )
    figure = make_subplots(rows=1, cols=len(panels), horizontal_spacing=0.09)
    for column, (traces, x_title, y_title) in enumerate(panels, 1):
        for trace in traces:
            figure.add_trace(trace, row=1, col=column)
        figure.update_xaxes(title_text=x_title, rangemode="tozero", row=1, col=column)
        figure.update_yaxes(title_text=y_title, rangemode="tozero", row=1, col=column)
    return theme.dress(figure, 390, showlegend=True)


def _clients(results: Results, clock: units.Unit) -> list[Any]:
    table = results.updates
    clients, seconds = table["client"], floats(table["seconds"]) / clock.size
    memory = floats(table["memory_norm"])
    if len(set(clients)) <= MOST_LINES:
        names = [name for name in results.names.values() if name in set(clients)]
        return _lines(names, clients, seconds, memory)
    return _bands(seconds, memory)


def _lines(
    names: list[str], clients: list[str], seconds: Floats, memory: Floats
) -> list[Any]:
    from plotly.graph_objects import Scatter

    whose = np.array(clients)
    colours = (
        theme.BLUE,
        theme.ORANGE,
        theme.GREEN,
        theme.PINK,
        theme.SKY,
        theme.VERMILION,
    )
    traces = []
    for place, name in enumerate(names):
        rows = np.flatnonzero(whose == name)
        rows = rows[downsample(len(rows), MOST_POINTS)]
        traces.append(
            Scatter(
                x=seconds[rows],
                y=memory[rows],
                name=theme.label(name),
                mode="lines" if len(rows) > 10 else "lines+markers",
                marker={"size": 5},
                line={
                    "color": colours[place % len(colours)],
                    "width": 1.6,
                    "dash": "solid" if place < len(colours) else "dot",
                },
                hovertemplate=f"{theme.plain(name)}: ‖e‖ %{{y:.4g}}<extra></extra>",
            )
        )
    return traces


def _bands(seconds: Floats, memory: Floats) -> list[Any]:
    from plotly.graph_objects import Scatter

    bins = Bins.of(len(memory), max(1, min(120, len(memory) // 10)))
    middle = bins.mean(seconds)
    traces = []
    for low, high, alpha in _BANDS:
        lower, upper = bins.quantiles(memory, (low, high))
        traces.append(
            Scatter(
                x=np.concatenate([middle, middle[::-1]]),
                y=np.concatenate([lower, upper[::-1]]),
                fill="toself",
                fillcolor=theme.soft(theme.BLUE, alpha),
                line={"width": 0},
                mode="lines",
                hoverinfo="skip",
                name="all" if low == 0 else f"{100 * (high - low):.0f} % of memories",
            )
        )
    (median,) = bins.quantiles(memory, (0.5,))
    traces.append(
        Scatter(
            x=middle,
            y=median,
            mode="lines",
            line={"color": theme.BLUE, "width": 2},
            name="median",
            hovertemplate="median ‖e‖ %{y:.4g}<extra></extra>",
        )
    )
    return traces


def _gap(results: Results) -> Any:
    from plotly.graph_objects import Scatter

    table = results.versions
    gap = floats(table.get("gap_norm", []))
    bins = Bins.of(len(gap), GAP_POINTS)
    return Scatter(
        x=bins.mean(floats(table.get("version", []))),
        y=bins.mean(gap),
        showlegend=False,
        mode="lines" if len(bins.starts) > 10 else "lines+markers",
        line={"color": theme.GREEN, "width": 1.6},
        hovertemplate="‖W − X‖ %{y:.4g}<br>version %{x:.0f}<extra></extra>",
    )
