"""The report as one self-contained page: layers, communication, scaling, the limit."""

from typing import TYPE_CHECKING

from fedcore.planning.paleo import SCHEMES
from fedcore.planning.scaling import amdahl
from fedstudies.curves import COLOURS
from fedstudies.intro import intro
from fedstudies.scaling.report import OURS, ScaleReport
from fedstudies.scaling.tables import (
    communication_cells,
    layer_cells,
    limit_cells,
    scaling_cells,
)
from fedview.report import theme
from fedview.report.page import Section, note, page, plot, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_LAYERS = (
    "What each layer computes and moves in a training step of one batch, forward and "
    "backward, and what the model of Paleo says that it takes."
)
_COMMUNICATION = (
    "Seconds of one exchange. The star is the federation's own: a server, with the "
    "bytes of the codecs. The others are those of Paleo, with uncompressed models."
)
_SCALING = (
    "The speed-up for a fixed total work (strong scaling), and the efficiency for a "
    "fixed work of each worker (weak scaling)."
)
_LIMIT = (
    "How alike gradients are. The more alike, the sooner averaging more of them brings "
    "nothing: n·Δ is the limit by gradient diversity among those measured, and what is "
    "flagged is 1 + the noise scale, which has no bias by their number."
)


def scale_page(report: ScaleReport) -> str:
    """Returns the report as one HTML page."""
    title = f"Scaling of {report.app}"
    counts = ", ".join(map(str, report.workers))
    top = intro(title, f"{counts} workers", report.verdict, report.sentences)
    sections = [_limits(report)]
    if report.layer_times:
        sections.append(_layers(report))
    lead = text(_COMMUNICATION)
    parts = [communication_cells(report).on_page()]
    sections.append(Section("communication", "Communication", lead, parts))
    if (found := report.scaling()) is not None:
        drawn = plot(speedup_figure(report), "speed-up by number of workers")
        other = plot(efficiency_figure(report), "efficiency by number of workers")
        parts = [drawn, other, scaling_cells(found).on_page()]
        sections.append(Section("scaling", "Predicted scaling", text(_SCALING), parts))
    if report.measured is not None:
        parts = [scaling_cells(report.measured).on_page()]
        lead = "The same for the runs that were given, from their own times."
        sections.append(Section("measured", "Measured scaling", lead, parts))
    return page(title, top, sections)


def _layers(report: ScaleReport) -> Section:
    parts = [plot(layer_figure(report), "seconds by layer")]
    parts.append(layer_cells(report).on_page())
    assert report.step is not None
    if report.step.unknown:
        names = ", ".join(report.step.unknown)
        parts.append(note(text(f"Counted as one FLOP for each value: {names}.")))
    return Section("layers", "Layers", text(_LAYERS), parts)


def _limits(report: ScaleReport) -> Section:
    reasons = [why for limits in report.limits.values() for why in limits.reasons]
    parts = [limit_cells(report).on_page()]
    parts += [note(text(f"{why[0].upper()}{why[1:]}.")) for why in reasons]
    return Section("limit", "Batch limit", text(_LIMIT), parts)


def layer_figure(report: ScaleReport) -> "Figure":
    """Draws a bar for each layer, in parts: computing, memory, starting operations."""
    from plotly.graph_objects import Bar, Figure

    rows = report.layer_times
    names = [theme.label(row.layer.name) for row in rows]
    figure = Figure()
    for colour, cause in zip(COLOURS, ("compute", "memory", "start"), strict=False):
        figure.add_trace(
            Bar(
                y=names,
                x=[1e3 * getattr(row, cause) for row in rows],
                name=cause,
                orientation="h",
                marker={"color": colour},
                hovertemplate=f"%{{y}}<br>{cause}: %{{x:.3g}} ms<extra></extra>",
            )
        )
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title_text="milliseconds of a step")
    return theme.dress(figure, theme.rows_height(len(rows)))


def speedup_figure(report: ScaleReport) -> "Figure":
    """Draws strong scaling: each scheme, the ideal, and Amdahl's fit to the star."""
    workers = list(report.workers)
    lines = {}
    for scheme in SCHEMES:
        found = report.scaling(scheme)
        assert found is not None
        lines[scheme.replace("_", " ")] = found.speedups
    ours = report.scaling(OURS)
    assert ours is not None
    lines["Amdahl's fit to the star"] = [amdahl(ours.serial_share, n) for n in workers]
    lines["as many times as workers"] = [float(n) for n in workers]
    if report.measured is not None:
        lines["measured"] = report.measured.speedups
    figure = _lines(report, lines, "speed-up at fixed total work")
    figure.update_yaxes(type="log")  # else the ideal hides all others
    return figure


def efficiency_figure(report: ScaleReport) -> "Figure":
    """Draws weak scaling of each scheme."""
    lines = {}
    for scheme in SCHEMES:
        found = report.scaling(scheme)
        assert found is not None
        lines[scheme.replace("_", " ")] = found.efficiencies
    if report.measured is not None:
        lines["measured"] = report.measured.efficiencies
    return _lines(report, lines, "efficiency at fixed work each")


def _lines(report: ScaleReport, lines: dict[str, list[float]], title: str) -> "Figure":
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for colour, (name, values) in zip(COLOURS, lines.items(), strict=False):
        measured = name == "measured" and report.measured is not None
        own = report.measured.workers if measured and report.measured else None
        figure.add_trace(
            Scatter(
                x=list(own or report.workers),
                y=values,
                name=name,
                mode="lines+markers",
                line={"color": colour, "width": 2},
                hovertemplate=f"{name}<br>%{{x}} workers: %{{y:.3g}}<extra></extra>",
            )
        )
    figure.update_xaxes(title_text="workers", type="log", tickvals=list(report.workers))
    figure.update_yaxes(title_text=title, rangemode="tozero")
    return theme.dress(figure, 360)
