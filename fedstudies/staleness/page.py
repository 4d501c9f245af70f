"""The staleness study as one self-contained page: the matrix, and the coherence."""

from typing import TYPE_CHECKING

import numpy as np

from fedstudies.curves import COLOURS, MOST_POINTS
from fedstudies.intro import intro
from fedstudies.staleness.matrix import Matrix
from fedstudies.staleness.slowdown import Row
from fedstudies.statistics import estimate
from fedview.report import theme
from fedview.report.downsample import downsample
from fedview.report.page import Section, page, plot, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MATRIX = (
    "How many times the iterations without staleness were needed. Every update reaches "
    "every copy of the model after a delay that is drawn from 0 to s iterations."
)
_COHERENCE = (
    "μ is the least product of the gradient of all samples with those of the last s "
    "iterations, divided by its own square. Where it is above 0, late updates still "
    "point downhill. The mean over the seeds, as far as all of them were trained."
)


def staleness_page(matrix: Matrix) -> str:
    """Returns the study as one HTML page.

    Args:
        matrix: with at least one row; the coherence is drawn where it was computed.
    """
    title = f"Staleness and {matrix.app}"
    top = intro(title, matrix.heading, matrix.verdict, matrix.doubts)
    drawn = plot(matrix_figure(matrix), "slowdown by optimizer and staleness")
    sections = [
        Section(
            "slowdown", "Slowdown", text(_MATRIX), [drawn, matrix.cells().on_page()]
        )
    ]
    plots = [
        plot(coherence_figure(row, matrix), f"gradient coherence with {row.name}")
        for row in matrix.rows
        if any(len(row.coherence(late)) for late in matrix.staleness)
    ]
    if plots:
        sections.append(
            Section("coherence", "Gradient coherence", text(_COHERENCE), plots)
        )
    return page(title, top, sections)


def matrix_figure(matrix: Matrix) -> "Figure":
    """Draws a cell for each row and staleness; its colour is the slowdown."""
    from plotly.graph_objects import Figure, Heatmap

    late = list(matrix.staleness)
    means_RS = np.array(
        [
            [
                estimate(row.slowdowns(s).tolist()).mean
                if row.is_reached(0)
                else np.nan
                for s in late
            ]
            for row in matrix.rows
        ]
    )
    known = means_RS[np.isfinite(means_RS)]
    figure = Figure(
        Heatmap(
            x=[f"s = {s}" for s in late],
            y=[theme.label(row.name) for row in matrix.rows],
            z=[[None if v != v else v for v in row] for row in means_RS.tolist()],
            zmin=1,
            zmax=max(2.0, float(known.max(initial=1.0))),
            text=[[matrix.cell(row, s) for s in late] for row in matrix.rows],
            texttemplate="%{text}",
            colorscale=[
                [0, theme.soft(theme.VERMILION, 0.05)],
                [1, theme.soft(theme.VERMILION, 0.9)],
            ],
            colorbar={
                "title": {"text": "slowdown", "side": "right", "font": {"size": 13}},
                "thickness": 12,
                "outlinewidth": 0,
            },
            xgap=2,
            ygap=2,
            hovertemplate="%{y}, %{x}: %{text}<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed")
    return theme.dress(figure, theme.rows_height(len(matrix.rows)))


def coherence_figure(row: Row, matrix: Matrix) -> "Figure":
    """Draws μ over the iterations, a line for each staleness."""
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for colour, late in zip(COLOURS, matrix.staleness, strict=False):
        mean_T = row.coherence(late)
        if not len(mean_T):
            continue
        places = downsample(len(mean_T), MOST_POINTS)
        figure.add_trace(
            Scatter(
                x=places + 2,  # μ is known from the second iteration on
                y=mean_T[places],
                name=f"s = {late}",
                mode="lines",
                line={"color": colour, "width": 2},
                hovertemplate=f"s = {late}<br>μ = %{{y:.3g}}<br>iteration %{{x}}"
                "<extra></extra>",
            )
        )
    figure.add_hline(y=0, line={"dash": "dot", "width": 1.5, "color": theme.GREY})
    figure.update_xaxes(title_text="iteration", rangemode="tozero")
    figure.update_yaxes(title_text=f"μ with {theme.label(row.name)}")
    return theme.dress(figure, 360)
