"""The predictions as one self-contained page."""

from typing import TYPE_CHECKING

import numpy as np

from fedcore.planning.demands import RESOURCES
from fedrun import units
from fedstudies.curves import COLOURS
from fedstudies.intro import intro
from fedstudies.predict.forecast import Forecast
from fedview.report import theme
from fedview.report.page import Section, page, plot, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_RATES = (
    "Updates per second in the long run. The lines are the most that each resource and "
    "the clients themselves allow; where they cross, more clients begin to wait."
)
_USE = (
    "The share of its capacity that each resource serves, and the share of its time "
    "that the mean client spends in phases of its own."
)
_LATE = (
    "How many versions were made between the download of an update's model and the "
    "verdict on it."
)
_TRACE = "What the traced client did, by the mean time of each phase."


def forecast_page(forecast: Forecast) -> str:
    """Returns the predictions as one HTML page."""
    title = f"Throughput from {forecast.source}"
    top = intro(title, forecast.heading, forecast.verdict, forecast.doubts)
    sections = [
        Section(
            "throughput",
            "Throughput",
            text(_RATES),
            [
                plot(rates_figure(forecast), "updates per second by clients"),
                forecast.cells().on_page(),
            ],
        ),
        Section(
            "utilisation",
            "Utilisation",
            text(_USE),
            [plot(use_figure(forecast), "utilisation by clients")],
        ),
        Section(
            "staleness",
            "Staleness",
            text(_LATE),
            [plot(staleness_figure(forecast), "share of updates by staleness")],
        ),
        Section("trace", "Trace", text(_TRACE), [forecast.phase_cells().on_page()]),
    ]
    return page(title, top, sections)


def rates_figure(forecast: Forecast) -> "Figure":
    """Draws updates per second over clients, with the bounds."""
    from plotly.graph_objects import Figure, Scatter

    clients = [row.clients for row in forecast.rows]
    figure = Figure(
        Scatter(
            x=clients,
            y=[row.updates_per_second for row in forecast.rows],
            name="predicted",
            mode="lines+markers",
            line={"color": theme.BLUE, "width": 2},
            hovertemplate="%{x} clients: %{y:.3g} updates/s<extra></extra>",
        )
    )
    ceiling = 1.6 * max(row.updates_per_second for row in forecast.rows)
    names = ("clients", *RESOURCES)
    for colour, name in zip(COLOURS[1:], names, strict=False):
        bounds = [row.bounds[name] for row in forecast.rows]
        if name != "clients" and not min(bounds) <= ceiling:
            continue
        figure.add_trace(
            Scatter(
                x=clients,
                y=bounds,
                name=f"most that the {name} allow{'' if name == 'clients' else 's'}",
                mode="lines",
                line={"color": colour, "width": 1.5, "dash": "dash"},
                hovertemplate=f"{name}: at most %{{y:.3g}} updates/s<extra></extra>",
            )
        )
    if forecast.saturation <= clients[-1] and not forecast.waits:
        figure.add_vline(
            x=forecast.saturation,
            line={"color": theme.GREY, "dash": "dot"},
            annotation_text=f"{forecast.bottleneck} full",
        )
    figure.update_xaxes(title_text="clients")
    figure.update_yaxes(title_text="updates/s", range=[0, ceiling])
    return theme.dress(figure, 380)


def use_figure(forecast: Forecast) -> "Figure":
    """Draws the utilisation of each resource over clients."""
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for colour, name in zip(COLOURS, (*RESOURCES, "client"), strict=False):
        figure.add_trace(
            Scatter(
                x=[row.clients for row in forecast.rows],
                y=[100 * row.utilisation[name] for row in forecast.rows],
                name=name,
                mode="lines+markers",
                line={"color": colour, "width": 2},
                hovertemplate=f"{name}: %{{y:.0f}} %<extra></extra>",
            )
        )
    figure.update_xaxes(title_text="clients")
    figure.update_yaxes(title_text="% in use", range=[0, 105])
    return theme.dress(figure, 340)


def staleness_figure(forecast: Forecast) -> "Figure":
    """Draws the share of the updates by staleness, in a colour for each W."""
    from plotly.graph_objects import Bar, Figure

    figure = Figure()
    for colour, row in zip(COLOURS, forecast.rows[-len(COLOURS) :], strict=False):
        counts_T = row.staleness_T
        figure.add_trace(
            Bar(
                x=np.arange(len(counts_T)),
                y=100 * counts_T / max(1, counts_T.sum()),
                name=units.amount(row.clients, "client"),
                marker={"color": colour, "line": {"width": 0}},
                hovertemplate=f"{row.clients} clients: %{{y:.1f}} % are %{{x}} "
                "versions late<extra></extra>",
            )
        )
    figure.update_xaxes(title_text="staleness (versions)")
    figure.update_yaxes(title_text="% of the updates", rangemode="tozero")
    return theme.dress(figure, 340)
