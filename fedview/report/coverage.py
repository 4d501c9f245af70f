"""The section on shares: those of clients and labels, and which clients are missing."""

from typing import TYPE_CHECKING

import numpy as np

from fedrun.units import amount
from fedview.report import theme
from fedview.report.downsample import downsample
from fedview.report.page import Section, note, plot, table, text
from fedview.results import Results
from fedview.results.coverage import Coverage
from fedview.results.warnings import absence, warnings

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_LISTED, MOST_LABELS = 10, 300


def section(results: Results) -> Section:
    """Makes the section: shares of clients and labels, and missing clients."""
    coverage = results.coverage
    title = "Shares in the model"
    if not coverage.mass:
        return Section("coverage", title, "No update was accepted yet.", [])
    parts = [note(text(warning)) for warning in warnings(coverage)]
    parts.append(plot(shares_figure(coverage), "Shares of clients and labels"))
    parts.append(_largest(coverage))
    if coverage.missing:
        parts.append(note(text(absence(coverage))))
    lead = (
        f"{amount(len(coverage.half), 'client')} of {len(coverage.clients):,} made "
        f"half of the last {coverage.recent_updates:,} updates. An update counts with "
        "its weight times its samples, as the recipe counts samples."
    )
    return Section("coverage", title, lead, parts)


def shares_figure(coverage: Coverage) -> "Figure":
    """Draws the largest clients' share of the model, and the labels' shares."""
    from plotly.graph_objects import Bar, Scatter
    from plotly.subplots import make_subplots

    every = coverage.labels
    largest = sorted(every, key=lambda label: -every[label].share)[:MOST_LABELS]
    labels = {label: every[label] for label in sorted(largest)}
    figure = make_subplots(
        rows=1, cols=2 if labels else 1, column_widths=[0.5, 0.5] if labels else None
    )
    clients = coverage.clients.values()
    for name, colour, masses in (
        ("all updates", theme.GREY, [client.mass for client in clients]),
        ("recent updates", theme.BLUE, [client.recent for client in clients]),
    ):
        part_N = np.array([0.0, *sorted(masses, reverse=True)]).cumsum()
        share_N = part_N / (part_N[-1] or 1.0)
        places = downsample(len(share_N), 400)
        curve = Scatter(
            x=100 * places / (len(share_N) - 1),
            y=100 * share_N[places],
            name=name,
            legendgroup=name,
            mode="lines",
            line={"color": colour, "shape": "linear"},
            hovertemplate="%{x:.3g} % of the clients: %{y:.3g} %<extra></extra>",
        )
        figure.add_trace(curve, row=1, col=1)
    figure.update_xaxes(title="% of the clients, largest first", row=1, col=1)
    figure.update_yaxes(title="% of the model", range=[0, 102], row=1, col=1)
    for name, colour, values in (
        ("all updates", theme.GREY, [label.share for label in labels.values()]),
        ("recent updates", theme.BLUE, [label.recent for label in labels.values()]),
    ):
        if labels:
            bars = Bar(
                x=list(labels),
                y=100 * np.array(values),
                name=name,
                legendgroup=name,
                showlegend=False,
                marker=theme.fill(colour),
                hovertemplate="label %{x}: %{y:.3g} %<extra></extra>",
            )
            figure.add_trace(bars, row=1, col=2)
    if labels:
        title = "label"
        if len(labels) < len(every):
            title = f"label (those {len(labels):,} of {len(every):,} with most)"
        figure.update_xaxes(title=title, row=1, col=2)
        figure.update_yaxes(title="% of the model", rangemode="tozero", row=1, col=2)
    return theme.dress(figure, 360)


def _largest(coverage: Coverage) -> str:
    ranked = sorted(coverage.clients.values(), key=lambda c: -c.mass)[:MOST_LISTED]
    return table(
        ["client", "updates", "share of all", "share of the recent", "last in version"],
        [
            [
                text(client.name),
                f"{client.updates:,}",
                f"{coverage.share(client.cid):.1%}",
                f"{coverage.recent_share(client.cid):.1%}",
                "" if client.version is None else f"{client.version:,}",
            ]
            for client in ranked
        ],
        " rrrr",
    )
