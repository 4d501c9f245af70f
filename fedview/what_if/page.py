"""Comparisons as self-contained HTML pages."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcore.errors import ConfigError
from fedrun import units
from fedrun.optional import is_installed
from fedrun.plain_files import write_text
from fedview.report import theme
from fedview.report.downsample import downsample
from fedview.report.page import Section, fold, note, page, plot, table, text
from fedview.results.tables import Table
from fedview.what_if.counterfactual import Counterfactual
from fedview.what_if.leave_one_out import LeaveOneOut

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_POINTS, MOST_LISTED = 400, 30
_BOTH = ("client", "updates", "replayed", "mean λ", "replayed", "share", "replayed")
_GUARANTEE = (
    "Updates are those that clients sent. What the other clients learnt from models "
    "that held the left out updates stays in their updates."
)


def write_page(found: Counterfactual | LeaveOneOut, out: Path) -> Path:
    """Writes a comparison as one HTML page.

    Raises:
        ConfigError: plotly is not installed.
    """
    if not is_installed("plotly"):
        raise ConfigError("--page: needs the package plotly, which is not installed")
    html = _ranking(found) if isinstance(found, LeaveOneOut) else _counterfactual(found)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, html)
    return out


def _counterfactual(found: Counterfactual) -> str:
    title = f"{found.run.name}, replayed"
    sections = []
    if found.samples:
        sections.append(_evaluations(found))
    sections.append(_versions(found))
    sections.append(
        Section(
            "clients",
            "Clients",
            "Accepted updates, mean weights λ and shares, as recorded and replayed.",
            [
                _cells(
                    found.clients,
                    _BOTH,
                    "{:,}|{:,}|{:.3g}|{:.3g}|{:.1%}|{:.1%}",
                )
            ],
        )
    )
    if found.labels:
        heads = ("label", "share", "replayed")
        cells = _cells(found.labels, heads, "{:.1%}|{:.1%}")
        sections.append(
            Section("labels", "Labels", "Shares of the labels in both models.", [cells])
        )
    return page(
        title, _intro(title, _describe_question(found), found.sentences), sections
    )


def _describe_question(found: Counterfactual | LeaveOneOut) -> str:
    if isinstance(found, LeaveOneOut):
        asked = "without each client in turn"
    else:
        asked = f"without {', '.join(found.without)}" if found.without else ""
    changed = f"with {', '.join(found.changes)}" if found.changes else ""
    return " ".join(part for part in (asked, changed) if part) or "as it was"


def _intro(title: str, heading: str, sentences: Sequence[str]) -> str:
    lines = "".join(f"<li>{text(line)}</li>" for line in sentences)
    return (
        f'<h1>{text(title)}</h1><p class="under">{text(heading)}</p>'
        f'<div class="verdict"><ul>{lines}</ul></div>'
    )


def _evaluations(found: Counterfactual) -> Section:
    lead = f"Both models on {units.amount(found.samples, 'sample')} of the app."
    heads = ("metric", "recorded", "replayed")
    cells = _cells(found.evaluations, heads, "{:.4f}|{:.4f}")
    return Section("metrics", "Metrics", lead, [cells])


def _versions(found: Counterfactual) -> Section:
    layers = _cells(
        found.layers,
        ("tensor", "values", "distance", "share of its norm"),
        "{:,}|{:.4g}|{:.2%}",
    )
    parts = [fold("Distance by tensor", layers), note(text(_GUARANTEE))]
    if found.versions:
        parts.insert(0, plot(distance_figure(found), "Distance of the two models"))
    lead = "The distance of the two models whenever the run made a version."
    return Section("distance", "Distance", lead, parts)


def distance_figure(found: Counterfactual) -> "Figure":
    """Draws the distance at each recorded version, relative to the model's norm."""
    from plotly.graph_objects import Figure, Scatter

    table_ = found.versions
    version_V = np.array(table_["version"])
    share_V = np.array([100 * (v or 0.0) for v in table_["relative"]])
    places = downsample(len(version_V), MOST_POINTS)
    curve = Scatter(
        x=version_V[places],
        y=share_V[places],
        mode="lines",
        line={"color": theme.BLUE, "width": 2},
        hovertemplate="version %{x}: %{y:.3g} %<extra></extra>",
    )
    figure = Figure(curve)
    figure.update_xaxes(title_text="recorded version")
    figure.update_yaxes(title_text="distance, % of the norm", rangemode="tozero")
    return theme.dress(figure, 360)


def _ranking(found: LeaveOneOut) -> str:
    title = f"{found.run.name} without each client"
    heads = ["client", "updates", "share", "distance", "of the norm", "answers"]
    form = "{:,}|{:.1%}|{:.4g}|{:.2%}|{:.0%}"
    lead = "Answers: what the others would have sent otherwise, at most, as a share."
    if "effect" in found.table:
        assert found.everybody is not None
        heads += [f"effect on {found.metric}", "±", *found.everybody.metrics]
        form += "|{:+.4g}|{:.2g}" + "|{:.4f}" * len(found.everybody.metrics)
        lead += " The metrics are those of the model without the client."
    cells = _cells(found.table, heads, form)
    drawn = plot(ranking_figure(found), "What each client did to the model")
    parts = [drawn, cells, note(text(_GUARANTEE))]
    order = ", the most helpful one first" if "effect" in found.table else ""
    section = Section("clients", f"Clients{order}", lead, parts)
    return page(
        title, _intro(title, _describe_question(found), found.sentences), [section]
    )


def ranking_figure(found: LeaveOneOut) -> "Figure":
    """Draws a bar for each of the clients at both ends of the table.

    A bar is coloured where the effect is beyond doubt. Without a ranking by a metric,
    bars are the distances of the models.
    """
    from plotly.graph_objects import Bar, Figure

    shown = found.clients
    if len(shown) > MOST_LISTED:
        shown = [*shown[: MOST_LISTED // 2], *shown[-MOST_LISTED // 2 :]]
    title, colours, doubts = "distance of the models", [theme.GREY] * len(shown), None
    values = [left.relative for left in shown]
    if "effect" in found.table:
        title = f"effect on {found.metric}"
        values = [found.effect(left) for left in shown]
        doubts = {"type": "data", "array": [left.doubt for left in shown]}
        colours = [
            theme.GREY
            if abs(value) <= left.doubt
            else (theme.VERMILION if value < 0 else theme.GREEN)
            for value, left in zip(values, shown, strict=True)
        ]
    bars = Bar(
        orientation="h",
        y=[theme.label(left.client) for left in shown],
        x=values,
        error_x=doubts,
        marker={"color": colours},
        hovertemplate="%{y}: %{x:.4g}<extra></extra>",
    )
    figure = Figure(bars)
    figure.update_xaxes(title_text=title)
    figure.update_yaxes(autorange="reversed")
    return theme.dress(figure, theme.rows_height(len(shown)))


def _cells(found: Table, heads: Sequence[str], form: str) -> str:
    """Makes a table whose first column is text and the others are numbers."""
    forms = form.split("|")

    def cell(value: Any, shape: str) -> str:
        return "–" if value is None else text(shape.format(value))

    rows = [
        [
            text(first),
            *(cell(each, shape) for each, shape in zip(rest, forms, strict=True)),
        ]
        for first, *rest in zip(*found.values(), strict=True)
    ]
    return table([text(head) for head in heads], rows, " " + "r" * len(forms))
