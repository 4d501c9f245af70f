"""The section on metrics: over time, versions and bytes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fedcore.coordinator.settings import lower_is_better
from fedrun import units
from fedview.report import theme
from fedview.report.byte_counts import downloads, uploads
from fedview.report.curves import (
    LOSS,
    MOST_POINTS,
    Curve,
    curves_of,
    main_first,
    targets,
)
from fedview.report.downsample import floats
from fedview.report.history import mark_history
from fedview.report.page import Section, fold, note, plot, table, text
from fedview.report.ranges import axis_range
from fedview.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_METRICS = 4
MOST_CLIENTS = 40


def section(results: Results) -> Section:
    """Makes the section on accuracy, loss and the other metrics."""
    names = _choose_metrics(results)
    curves = {name: curves_of(results, name) for name in names}
    curves = {name: found for name, found in curves.items() if found}
    parts = []
    if curves:
        figure = learning_figure(results, curves)
        parts.append(plot(figure, "Metrics over time, versions and bytes"))
    return Section(
        "learning",
        "Learning",
        _lead(results, bool(curves)),
        [*parts, *_notes(results), *_clients(results)],
    )


def learning_figure(results: Results, curves: dict[str, list[Curve]]) -> "Figure":
    """Draws a row for each metric, over time, versions and bytes."""
    from plotly.graph_objects import Scatter
    from plotly.subplots import make_subplots

    up, down = uploads(results), downloads(results)
    clock = units.time_unit(results.seconds)
    weight = units.byte_unit(up.total + down.total)
    figure = make_subplots(
        rows=len(curves),
        cols=3,
        shared_yaxes=True,
        shared_xaxes=True,
        horizontal_spacing=0.03,
        vertical_spacing=0.08,
    )
    seen: set[str] = set()
    most = np.ones(3)  # the end of each column's axis
    for row, (name, found) in enumerate(curves.items(), 1):
        for curve in found:
            nbytes = up.up_to(curve.seconds) + down.up_to(curve.seconds)
            places = (curve.seconds / clock.size, curve.versions, nbytes / weight.size)
            most = np.fmax(most, [np.fmax.reduce(place) for place in places])
            for column, place in enumerate(places, 1):
                figure.add_trace(
                    Scatter(
                        x=place,
                        y=curve.values,
                        name=curve.who,
                        legendgroup=curve.who,
                        showlegend=curve.who not in seen,
                        mode="lines+markers" if curve.markers else "lines",
                        marker={"size": 5},
                        line={"color": curve.colour, "width": 2},
                        customdata=np.stack(
                            [curve.versions, places[0], places[2], curve.samples], -1
                        ),
                        hovertemplate=_hover(curve.who, name, clock.name, weight.name),
                        connectgaps=False,
                        cliponaxis=False,
                    ),
                    row=row,
                    col=column,
                )
                seen.add(curve.who)
        _target(figure, results, name, row)
        figure.update_yaxes(title_text=theme.label(name), row=row, col=1)
        figure.update_yaxes(range=_range(results, name, found), row=row)
    titles = (
        f"time ({clock.name})",
        "version",
        f"payload, up and down ({weight.name})",
    )
    for column, title in enumerate(titles, 1):
        figure.update_xaxes(range=[0, most[column - 1]], col=column)
        figure.update_xaxes(title_text=title, row=len(curves), col=column)
    for row in range(1, len(curves) + 1):
        mark_history(figure, results, clock, row=row, col=1)
    return theme.dress(figure, 110 + 250 * len(curves))


def _hover(who: str, name: str, clock: str, weight: str) -> str:
    return (
        f"{who}<br>{theme.plain(name)} %{{y:.4g}}<br>version %{{customdata[0]:.0f}}"
        f"<br>%{{customdata[1]:.4g}} {clock}<br>%{{customdata[2]:.4g}} {weight}"
        "<br>%{customdata[3]:,.0f} samples<extra></extra>"
    )


def _target(figure: "Figure", results: Results, name: str, row: int) -> None:
    target = targets(results)
    if name in target:
        for column in (1, 2, 3):
            words = {"annotation_text": "target"} if column == 1 else {}
            figure.add_hline(
                y=target[name],
                line={"dash": "dot", "width": 1.5, "color": theme.GREY},
                row=row,
                col=column,
                **words,
            )


def _range(results: Results, name: str, curves: Iterable[Curve]) -> list[float]:
    """Returns a range with the curves and the target, and no impossible value."""
    values = np.concatenate([curve.values for curve in curves])
    target = targets(results).get(name, np.nan)
    return axis_range(name, values, [values, np.array([target])])


def _choose_metrics(results: Results) -> list[str]:
    """Returns the metrics that get a row: the main one first, and the loss."""
    names = main_first(results.metric_names)[:MOST_METRICS]
    return names if LOSS in names else [*names[: MOST_METRICS - 1], LOSS]


def _lead(results: Results, anything: bool) -> str:
    if not results.metric_names:
        return "No model was evaluated, neither by an evaluator nor by clients." + (
            " The training loss is what clients reported." if anything else ""
        )
    count = len(results.central.get("version", []))
    parts = [units.amount(count, "evaluation") + " by the evaluator"] if count else []
    versions = len(results.federated.get("version", []))
    if versions:
        parts.append(
            f"evaluations of {units.amount(versions, 'version')} by clients, each the "
            "mean weighted by samples"
        )
    found = " and ".join(parts)
    return (
        f"{text(found[0].upper() + found[1:])}. Each version is drawn at the time of "
        "its publication; payload counts what codecs made until then, up and down."
    )


def _clients(results: Results) -> list[str]:
    """Makes a table of the clients' last evaluations, or of the worst ones."""
    evaluated = results.by_client
    names = [n for n in main_first(results.metric_names) if n in evaluated]
    if not names:
        return []
    rows = range(len(evaluated["client"]))
    if len(rows) > MOST_CLIENTS:
        sign = 1 if lower_is_better(names[0]) else -1
        first = np.nan_to_num(sign * floats(evaluated[names[0]]), nan=-np.inf)
        rows = np.argsort(-first, kind="stable")[:MOST_CLIENTS].tolist()
    names = names[:MOST_METRICS]
    cells = [
        (
            text(evaluated["client"][i]),
            f"{evaluated['version'][i]:,}",
            f"{evaluated['samples'][i]:,}",
            *(units.metric(evaluated[name][i]) for name in names),
        )
        for i in rows
    ]
    heads = ("client", "version", "n", *(text(name) for name in names))
    all_of_them = len(evaluated["client"])
    title = "The last evaluation by each client, on its own data"
    if len(cells) < all_of_them:
        title += f": the worst {len(cells)} of {all_of_them:,} by {text(names[0])}"
    return [fold(title, table(heads, cells, " " + "r" * (len(heads) - 1)))]


def _notes(results: Results) -> list[str]:
    notes = []
    hidden = [n for n in results.metric_names if n not in _choose_metrics(results)]
    if hidden:
        notes.append(note(f"Not drawn: {text(', '.join(hidden))}."))
    for rows, whom in (
        (results.central, "the evaluator"),
        (results.federated, "clients"),
    ):
        count = len(rows.get("version", []))
        if count > MOST_POINTS:
            drawn = (
                f"{MOST_POINTS} of {count:,} versions evaluated by {whom} are drawn."
            )
            notes.append(note(drawn))
    best = []
    for name in main_first(results.best):
        value, version = results.best[name]
        best.append(f"{text(name)} {units.metric(value)} at version {version:,}")
    if best:
        lower = [n for n in results.best if lower_is_better(n)]
        low = f" (lower is better: {text(', '.join(lower))})" if lower else ""
        notes.append(note(f"Best: {'; '.join(best)}{low}."))
    return notes
