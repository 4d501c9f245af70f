"""The comparison of predictions and measurements as one HTML page, and as a table."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.fidelity.comparison import Fidelity, Predicted, Prediction, Row
from fedrun import units
from fedstudies.curves import COLOURS, curves_figure
from fedstudies.tables import Cells
from fedstudies.trial import Group
from fedview.report import theme
from fedview.report.page import Section, page, plot, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_INTRO = """<h1>Fidelity of the simulation</h1>
<p class="under">{under}</p>
<div class="verdict">{sentences}</div>"""
_CURVES = (
    "Time counts from the first task that was given out. Simulated curves are means "
    "over the seeds with 95 % intervals; the target is dotted. The calibrated "
    "simulation knows what the journal held after the first {pilot} s."
)
_STALENESS = (
    "The share of updates that were at most so many versions late. The "
    "Kolmogorov-Smirnov distance is the largest gap between two of these curves; its "
    "bound is for independent values, which updates of one run are not quite."
)
_NUMBERS = (
    "A prediction has the seed of the run, and so the same first model and batches; "
    "in brackets are the least and the most with other seeds too. Payload is what "
    "codecs made, up to the end of the run; what is under way then counts nowhere."
)


def cells(fidelity: Fidelity) -> Cells:
    """A heading, and a row for each quantity."""
    head = ["", fidelity.measured.name]
    for each in fidelity.predicted:
        head += [each.name, "error"]
    rows = [*map(_row, fidelity.rows), *_tests(fidelity)]
    return Cells(head, rows, " " + "r" * (len(head) - 1))


def _row(row: Row) -> list[str]:
    pairs = zip(row.predicted, row.errors(), strict=True)
    return [
        row.what,
        _number(row.measured),
        *(cell for found, error in pairs for cell in (_range(found), _share(error))),
    ]


def _tests(fidelity: Fidelity) -> Iterator[list[str]]:
    row = ["staleness: KS distance, bound", ""]
    for each in fidelity.predicted:
        found = fidelity.staleness(each)
        row += ["", ""]
        if found is not None:
            row[-2:] = [f"{found.statistic:.3f}", f"{found.bound:.3f}"]
    yield row
    row = [f"{fidelity.metric} by version: mean, largest gap", ""]
    for each in fidelity.predicted:
        apart = fidelity.apart(each)
        row += [units.metric(apart.mean), units.metric(apart.largest)]
    yield row


def _number(value: float) -> str:
    if math.isnan(value):
        return "never"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def _range(found: Predicted) -> str:
    """With this seed, and with all: ``12.3 (11.8 to 12.9)``."""
    value = _number(found.value)
    if math.isnan(found.low) or found.low == found.high:
        return value
    return f"{value} ({_number(found.low)} to {_number(found.high)})"


def _share(error: float) -> str:
    if math.isnan(error):
        return ""
    return f"{100 * error:+.1f} %" if error else "0"


def fidelity_page(fidelity: Fidelity, under: str) -> str:
    """The whole page; ``under`` says what was run."""
    groups = [
        Group(each.name, dict(enumerate(side.trial for side in each.sides)))
        for each in _all(fidelity)
    ]
    curves = curves_figure(groups, fidelity.metric, fidelity.target)
    title = f"{fidelity.metric} over versions, time and payload"
    sections = [
        Section("numbers", "Numbers", _NUMBERS, [cells(fidelity).on_page()]),
        Section(
            "curves",
            "Curves",
            _CURVES.format(pilot=f"{fidelity.pilot:.3g}"),
            [plot(curves, title)],
        ),
    ]
    if any(each.first.staleness.any() for each in _all(fidelity)):
        figure = staleness_figure(fidelity)
        words = "Share of updates by staleness"
        sections.append(
            Section("staleness", "Staleness", _STALENESS, [plot(figure, words)])
        )
    sentences = "".join(f"<p>{text(line)}</p>" for line in fidelity.sentences())
    intro = _INTRO.format(under=text(under), sentences=sentences)
    return page("Fidelity of the simulation", intro, sections)


def _all(fidelity: Fidelity) -> list[Prediction]:
    """What was measured, as if it had been predicted, and the predictions."""
    measured = fidelity.measured
    return [Prediction(measured.name, [measured]), *fidelity.predicted]


def staleness_figure(fidelity: Fidelity) -> "Figure":
    """The share of updates with at most so much staleness, a line for each side."""
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for colour, each in zip(COLOURS, _all(fidelity), strict=False):
        side = each.first
        if not len(side.staleness):
            continue
        values, counts = np.unique(side.staleness, return_counts=True)
        share = np.cumsum(counts) / counts.sum()
        figure.add_trace(
            Scatter(
                x=np.concatenate([[0.0], values]),
                y=np.concatenate([[0.0], share]),
                name=theme.plain(side.name),
                mode="lines",
                line={"color": colour, "width": 2, "shape": "hv"},
                hovertemplate=f"{theme.plain(side.name)}<br>%{{y:.1%}} at most "
                "%{x:.0f} late<extra></extra>",
            )
        )
    figure.update_xaxes(title_text="staleness (versions)", rangemode="tozero")
    figure.update_yaxes(title_text="share of updates", range=[0, 1.02])
    return theme.dress(figure, 360)
