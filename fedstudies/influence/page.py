"""The audit as one self-contained page: bars, a scatter and the table."""

from typing import TYPE_CHECKING

from fedstudies.curves import COLOURS
from fedstudies.influence.outcome import Audit, Influence, best_of
from fedstudies.intro import intro
from fedview.report import theme
from fedview.report.page import Section, page, plot, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_BARS = (
    "How the {metric} on the test data would change without each client: without it, "
    "minus with it. Clients at the top are missed most."
)
_SCATTER = (
    "Each point is a client. On the diagonal the estimate is what retraining without "
    "the client shows, with the batches of the other clients as they were."
)
_TABLE = (
    "Changes of all metrics without each client, and the distance of the models. "
    "The error is the norm of the difference of estimated and true change, as a share."
)


def influence_page(audit: Audit) -> str:
    """Returns the audit as one HTML page."""
    title = f"Influence of clients in {audit.run}"
    top = intro(
        title,
        audit.heading,
        audit.verdict,
        audit.doubts,
        is_warning=not audit.holds,
    )
    bars = plot(bars_figure(audit), f"change of the {audit.metric} without each client")
    lead = text(_BARS.format(metric=audit.metric))
    sections = [Section("influence", "Influence", lead, [bars])]
    if audit.is_checked:
        drawn = plot(scatter_figure(audit), "estimated and true influence")
        sections.append(Section("check", "Estimated and true", text(_SCATTER), [drawn]))
    table = Section("clients", "Clients", text(_TABLE), [audit.cells().on_page()])
    return page(title, top, [*sections, table])


def bars_figure(audit: Audit) -> "Figure":
    """Draws a bar for each client, and beside it the true one where it is known.

    The one that is known best has its doubt drawn.
    """
    from plotly.graph_objects import Bar, Figure

    names = [theme.label(row.client) for row in audit.rows]
    figure = Figure()
    kinds: list[tuple[str, list[Influence | None], str]]
    kinds = [("estimated", [row.estimated for row in audit.rows], COLOURS[0])]
    if audit.is_checked:
        kinds.append(("true", [row.true for row in audit.rows], COLOURS[1]))
    for name, found, colour in kinds:
        doubts = [
            audit.doubt(row) if each is best_of(row) else 0.0
            for row, each in zip(audit.rows, found, strict=True)
        ]
        figure.add_trace(
            Bar(
                x=[each and each.changes[audit.metric] for each in found],
                error_x={"type": "data", "array": doubts},
                y=names,
                name=name,
                orientation="h",
                marker={"color": colour},
                hovertemplate="%{y}: %{x:+.4g}<extra>" + name + "</extra>",
            )
        )
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title_text=f"change of the {audit.metric} without the client")
    return theme.dress(figure, theme.rows_height(len(names) * len(kinds)))


def scatter_figure(audit: Audit) -> "Figure":
    """Draws estimated against true changes of the metric, with the diagonal."""
    from plotly.graph_objects import Figure, Scatter

    rows = [(row.client, row.estimated, row.true) for row in audit.rows if row.true]
    estimated = [one.changes[audit.metric] for _, one, _ in rows]
    true = [each.changes[audit.metric] for _, _, each in rows if each]
    ends = [min([*estimated, *true]), max([*estimated, *true])]
    figure = Figure(
        Scatter(
            x=ends,
            y=ends,
            mode="lines",
            showlegend=False,
            hoverinfo="skip",
            line={"dash": "dot", "width": 1.5, "color": theme.GREY},
        )
    )
    figure.add_trace(
        Scatter(
            x=true,
            y=estimated,
            text=[theme.label(name) for name, _, _ in rows],
            mode="markers",
            showlegend=False,
            marker={"color": COLOURS[0], "size": 9},
            hovertemplate="%{text}<br>true %{x:+.4g}<br>estimated %{y:+.4g}"
            "<extra></extra>",
        )
    )
    figure.update_xaxes(title_text=f"true change of the {audit.metric}")
    figure.update_yaxes(title_text="estimated")
    return theme.dress(figure, 400)
