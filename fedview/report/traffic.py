"""The section on bytes: up and down, and what they would be uncompressed."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from fedrun import units
from fedview.report import theme
from fedview.report.byte_counts import ByteCounts, downloads, uploads
from fedview.report.downsample import downsample
from fedview.report.history import mark_history
from fedview.report.page import Section, beside, note, plot, table
from fedview.report.traffic_by_client import parts as counted
from fedview.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_POINTS = 300
_KINDS = {
    "none": "nothing: the client was up to date",
    "replay": "the messages that it missed",
    "overwrite": "the values that had changed",
    "full": "the whole model",
}
_COUNTED = (
    "The journal records the payloads of updates that got a verdict and of models that "
    "were sent with tasks, also to the evaluator. It does not record repeated and "
    "broken uploads, the final model, and what the transport adds. Uncompressed means "
    "four bytes for each of the model's values, for the same updates and downloads."
)


def section(results: Results) -> Section:
    """Makes the section on bytes up and down."""
    up, down = uploads(results), downloads(results)
    if not up.total + down.total:
        return Section("bytes", "Bytes", "Nothing was transferred.", [])
    both, dense = up.total + down.total, up.uncompressed + down.uncompressed
    lead = (
        f"{_messages(results)}The payload was {units.unbroken_bytes(up.total)} up and "
        f"{units.unbroken_bytes(down.total)} down, {units.versus(both, dense)}: "
        f"{units.unbroken_bytes(dense)} for the same updates and models."
    )
    parts = [
        plot(traffic_figure(results, up, down), "Payload over time"),
        beside(_directions(up, down), _patches(results)),
        note(_COUNTED),
        *counted(results),
    ]
    return Section("bytes", "Bytes", lead, parts)


def _messages(results: Results) -> str:
    """Says how many bytes messages had; empty for a simulation, which has none."""
    summary = results.summary
    if not summary["in_messages"]:
        return ""
    up, down = summary["bytes_up"], summary["bytes_down"]
    less = units.versus(up + down, summary["bytes_uncompressed"])
    return (
        f"Messages had {units.unbroken_bytes(up)} up and {units.unbroken_bytes(down)} "
        f"down, {less}. "
    )


def traffic_figure(results: Results, up: ByteCounts, down: ByteCounts) -> "Figure":
    """Draws the payload so far on a logarithmic axis; uncompressed is dotted."""
    from plotly.graph_objects import Figure, Scatter

    clock = units.time_unit(results.seconds)
    figure = Figure()
    for counts, name, colour in ((up, "up", theme.UP), (down, "down", theme.DOWN)):
        events = counts.seconds[counts.nbytes > 0]
        moments = np.unique(events[downsample(len(events), MOST_POINTS)])
        if not len(moments):
            continue
        moments = np.append(moments, max(results.seconds, moments[-1]))
        for dash, sums, what in (
            ("solid", counts.up_to(moments), name),
            ("dot", counts.dense_up_to(moments), f"{name}, uncompressed"),
        ):
            line = Scatter(
                x=moments / clock.size,
                y=sums,
                name=what,
                mode="lines",
                line={"color": colour, "width": 2, "dash": dash, "shape": "hv"},
                hovertemplate=f"%{{y:.3s}}B {what}<br>%{{x:.4g}} {clock.name}"
                "<extra></extra>",
            )
            figure.add_trace(line)
    figure.update_yaxes(
        title_text="payload so far (log)",
        type="log",
        exponentformat="SI",
        ticksuffix="B",
        dtick=1,
        minexponent=2,
    )
    figure.update_xaxes(title_text=f"time ({clock.name})")
    mark_history(figure, results, clock)
    return theme.dress(figure, 380)


def _directions(up: ByteCounts, down: ByteCounts) -> str:
    rows = []
    for name, counts in (("up: updates", up), ("down: models", down)):
        mean = counts.total / counts.exchanges if counts.exchanges else 0
        rows.append(
            (
                name,
                f"{counts.exchanges:,}",
                units.unbroken_bytes(counts.total),
                units.unbroken_bytes(mean),
                units.unbroken_bytes(counts.uncompressed),
                units.times(counts.total, counts.uncompressed),
            )
        )
    head = ("direction", "payloads", "payload", "mean", "uncompressed", "smaller by")
    return table(head, rows, " rrrrr")


def _patches(results: Results) -> str:
    kinds: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    tasks = results.tasks
    for kind, size in zip(tasks.get("patch", []), tasks.get("bytes", []), strict=True):
        kinds[kind] += 1
        sizes[kind] += size
    rows = [
        (
            _KINDS[kind],
            f"{kinds[kind]:,}",
            units.unbroken_bytes(sizes[kind]),
            units.unbroken_bytes(sizes[kind] / kinds[kind]),
        )
        for kind in _KINDS
        if kinds[kind]
    ]
    head = ("downloaded", "tasks", "payload", "mean")
    return table(head, rows, " rrr") if rows else ""
