"""The section on staleness: how late updates were, and what they weighed."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedcore.protocol import Verdict
from fedrun.units import amount
from fedview.report import theme
from fedview.report.downsample import Floats, floats
from fedview.report.page import Section, note, plot, text
from fedview.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_BARS = 60


class Histogram(NamedTuple):
    """Updates by staleness, in bins of ``width`` versions; the last may be open."""

    width: int
    most: int  # the greatest staleness
    starts: Floats
    updates: dict[Verdict, Floats]
    weight: Floats  # mean λ of accepted updates; NaN where there are none
    lightest: Floats
    heaviest: Floats


def section(results: Results) -> Section:
    """Makes the section on staleness and the weight λ."""
    staleness = floats(results.updates.get("staleness", []))
    if not len(staleness):
        return Section("staleness", "Staleness", "No update has arrived.", [])
    histogram = count(results)
    parts = [plot(staleness_figure(histogram), "Updates and mean weight by staleness")]
    if histogram.width > 1:
        parts.append(note(f"Each bar holds {histogram.width} values of staleness."))
    last = int(histogram.starts[-1])
    if histogram.most >= last + histogram.width:
        parts.append(
            note(f"The last bar holds all from {last:,} to {histogram.most:,}.")
        )
    policy = results.setting("algorithm", "staleness", "kind", default="unknown")
    lead = (
        "Staleness is how many versions were published while a client trained. "
        f"{_how_late(staleness)} The weight λ is how much an update counts; its policy "
        f"here is <em>{text(policy)}</em>."
    )
    return Section("staleness", "Staleness", lead, parts)


def _how_late(staleness: Floats) -> str:
    if not staleness.any():
        return "No update was late."
    middle, late = np.quantile(staleness, [0.5, 0.95], method="inverted_cdf")
    half = f"at most {amount(int(middle), 'version')} late" if middle else "not late"
    most = f"95&nbsp;% at most {amount(int(late), 'version')}"
    return (
        f"Half of the updates were {half}, {most}, the latest {staleness.max():,.0f}."
    )


def count(results: Results) -> Histogram:
    """Returns the histogram of a run's updates."""
    table = results.updates
    staleness = np.maximum(floats(table["staleness"]), 0)
    weight = floats(table["weight"])
    verdicts = np.array(table["verdict"], dtype=object)
    accepted = verdicts == Verdict.ACCEPTED
    # A few stragglers must not press all others into one bar: they share the last.
    reach = max(MOST_BARS - 1, math.ceil(1.2 * np.quantile(staleness, 0.995)))
    width = min(reach, int(staleness.max())) // MOST_BARS + 1
    bins = (np.minimum(staleness, reach) // width).astype(np.int64)
    size = int(bins.max()) + 1
    updates = {
        verdict: np.bincount(bins[verdicts == verdict], minlength=size).astype(float)
        for verdict in theme.VERDICTS
    }
    counts = updates[Verdict.ACCEPTED]
    sums = np.bincount(bins[accepted], weight[accepted], minlength=size)
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, bins[accepted], weight[accepted])
    np.maximum.at(high, bins[accepted], weight[accepted])
    none = counts == 0
    low[none] = high[none] = np.nan
    mean = np.divide(sums, counts, out=np.full(size, np.nan), where=~none)
    starts = np.arange(size, dtype=np.float64) * width
    most = int(staleness.max())
    return Histogram(width, most, starts, updates, mean, low, high)


def staleness_figure(found: Histogram) -> "Figure":
    """Draws the weight above, and the number of updates below."""
    from plotly.graph_objects import Bar, Scatter
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.07,
        row_heights=[0.42, 0.58],
    )
    ends = found.starts + found.width - 1
    x = (found.starts + ends) / 2
    ends[-1] = max(ends[-1], found.most)
    names = [
        f"{a:.0f}" if a == b else f"{a:.0f} to {b:.0f}"
        for a, b in zip(found.starts, ends, strict=True)
    ]
    for verdict, y in found.updates.items():
        if y.any():
            bars = Bar(
                x=x,
                y=y,
                width=0.8 * found.width,
                name=theme.verdict_name(verdict),
                marker=theme.fill(*theme.VERDICTS[verdict]),
                customdata=names,
                hovertemplate=f"%{{y:,.0f}} {theme.verdict_name(verdict)}"
                "<br>staleness %{customdata}<extra></extra>",
            )
            figure.add_trace(bars, row=2, col=1)
    figure.add_trace(
        Scatter(
            x=x,
            y=found.weight,
            name="mean weight λ (bars: least and most)",
            mode="lines+markers",
            cliponaxis=False,
            marker={"size": 6},
            line={"color": theme.GREEN, "width": 2},
            error_y={
                "symmetric": False,
                "array": found.heaviest - found.weight,
                "arrayminus": found.weight - found.lightest,
                "color": theme.soft(theme.GREEN, 0.45),
                "thickness": 1.5,
                "width": 3,
            },
            customdata=list(zip(found.lightest, found.heaviest, names, strict=True)),
            hovertemplate="mean λ %{y:.3f}<br>%{customdata[0]:.3f} to "
            "%{customdata[1]:.3f}<br>staleness %{customdata[2]}<extra></extra>",
        ),
        row=1,
        col=1,
    )
    figure.update_yaxes(title_text="weight λ", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="updates", row=2, col=1)
    figure.update_xaxes(title_text="staleness (versions)", row=2, col=1)
    figure.update_xaxes(range=[-0.7 * found.width, max(10.0, x[-1] + found.width)])
    return theme.dress(figure, 440, barmode="stack")
