"""Plots of means with bands over the runs of a group."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedrun import units
from fedstudies.statistics import student_t
from fedstudies.trial import Group, Trial
from fedview.report import theme
from fedview.report.downsample import Floats, downsample
from fedview.report.ranges import axis_range, limits

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COLOURS = (
    theme.BLUE,
    theme.VERMILION,
    theme.GREEN,
    theme.PINK,
    theme.ORANGE,
    theme.SKY,
    theme.YELLOW,
    theme.GREY,
)
MOST_CURVES = len(COLOURS)
MOST_POINTS = 200
AXES = ("version", "seconds", "nbytes")


class Band(NamedTuple):
    """A mean curve with its interval, which is empty where there is one run.

    The interval stays within the metric's range: no accuracy is above 1.
    """

    over: Floats
    mean: Floats
    low: Floats
    high: Floats


def band(trials: Sequence[Trial], metric: str, axis: str) -> Band | None:
    """The mean over runs with its 95 % interval, up to the end of the shortest run.

    Between two evaluations a run's curve is a straight line.

    Args:
        trials: the runs.
        metric: the metric to draw.
        axis: ``version``, ``seconds``, ``updates`` or ``nbytes``.

    Returns:
        The band, or None if the runs have no common part.
    """
    curves = [trial.curve(metric, axis) for trial in trials]
    curves = [(over, values) for over, values in curves if len(over)]
    if not curves:
        return None
    start = max(over[0] for over, _ in curves)
    end = min(over[-1] for over, _ in curves)
    grid = np.unique(np.concatenate([over for over, _ in curves]))
    grid = grid[(grid >= start) & (grid <= end)]
    if not len(grid):
        return None
    grid = grid[downsample(len(grid), MOST_POINTS)]
    values_RG = np.stack([np.interp(grid, over, values) for over, values in curves])
    least, most = limits(metric, np.concatenate([values for _, values in curves]))
    mean, count = values_RG.mean(0), len(values_RG)
    if count == 1:
        return Band(grid, mean, mean, mean)
    half = student_t(count - 1) * values_RG.std(0, ddof=1) / np.sqrt(count)
    low, high = np.clip([mean - half, mean + half], least, most)
    return Band(grid, mean, low, high)


def curves_figure(
    groups: Sequence[Group], metric: str, target: float | None = None
) -> "Figure":
    """Draws the metric over versions, over time and over bytes.

    Args:
        groups: the curves; the first eight of them are drawn.
        metric: the metric to draw.
        target: a value of it to mark.

    Returns:
        A figure with three columns.
    """
    from plotly.subplots import make_subplots

    groups = groups[:MOST_CURVES]
    trials = [trial for group in groups for trial in group.trials.values()]
    clock = units.time_unit(max((t.seconds for t in trials), default=0.0))
    weight = units.byte_unit(max((t.nbytes for t in trials), default=0))
    sizes = {"version": 1.0, "seconds": clock.size, "nbytes": weight.size}
    figure = make_subplots(rows=1, cols=3, shared_yaxes=True, horizontal_spacing=0.03)
    drawn: list[Floats] = [] if target is None else [np.array([target])]
    for colour, group in zip(COLOURS, groups, strict=False):
        for column, axis in enumerate(AXES, 1):
            found = band(list(group.trials.values()), metric, axis)
            if found is not None:
                over = found.over / sizes[axis]
                drawn += [found.mean, found.low, found.high]
                for trace in _traces(group.name, colour, found._replace(over=over)):
                    trace.showlegend = bool(column == 1 and trace.name)
                    figure.add_trace(trace, row=1, col=column)
    titles = (
        "version",
        f"time ({clock.name})",
        f"payload, up and down ({weight.name})",
    )
    for column, title in enumerate(titles, 1):
        figure.update_xaxes(title_text=title, rangemode="tozero", row=1, col=column)
        if target is not None:
            figure.add_hline(
                y=target,
                line={"dash": "dot", "width": 1.5, "color": theme.GREY},
                row=1,
                col=column,
            )
    measured = [trial.curve(metric, "version")[1] for trial in trials]
    known = np.concatenate([*measured, np.empty(0)])
    figure.update_yaxes(range=axis_range(metric, known, drawn))
    figure.update_yaxes(title_text=theme.label(metric), row=1, col=1)
    return theme.dress(figure, 420 + theme.legend_height(len(groups)))


def draw_line(
    name: str,
    x: Any,
    y: Any,
    hover: str,
    colour: str,
    *,
    width: float = 2,
    **more: Any,
) -> Any:
    """Makes a line of a figure.

    Args:
        name: in the legend.
        x: the places.
        y: the values.
        hover: what is shown at a point.
        colour: of the line.
        width: of the line, in pixels.
        more: other settings of the trace; those of ``line`` are added.
    """
    from plotly.graph_objects import Scatter

    line = {"color": colour, "width": width, **more.pop("line", {})}
    given = {"mode": "lines", "hovertemplate": f"{hover}<extra></extra>", **more}
    return Scatter(x=x, y=y, name=name, line=line, **given)


def figure_of(traces: Iterable[Any], x: str, y: str, height: int) -> "Figure":
    """Makes a figure of traces, with the names of its axes.

    Args:
        traces: what is drawn.
        x: the name of the axis below.
        y: that of the axis beside; empty: none.
        height: in pixels.
    """
    from plotly.graph_objects import Figure

    figure = Figure([*traces])
    figure.update_xaxes(title_text=x)
    if y:
        figure.update_yaxes(title_text=y)
    return theme.dress(figure, height)


def _traces(name: str, colour: str, found: Band) -> list[Any]:
    """The traces of a curve: its band, and the line of the mean above it."""
    from plotly.graph_objects import Scatter

    name = theme.plain(name)
    around = Scatter(
        x=np.concatenate([found.over, found.over[::-1]]),
        y=np.concatenate([found.high, found.low[::-1]]),
        mode="lines",  # by default, a short line has dots
        fill="toself",
        fillcolor=theme.soft(colour, 0.18),
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
        legendgroup=name,
    )
    line = Scatter(
        x=found.over,
        y=found.mean,
        name=name,
        legendgroup=name,
        mode="lines" if len(found.over) > 1 else "markers",
        line={"color": colour, "width": 2},
        marker={"color": colour, "size": 7},
        customdata=np.stack([found.low, found.high], -1),
        hovertemplate=f"{name}<br>%{{y:.4g}} (%{{customdata[0]:.4g}} to "
        "%{customdata[1]:.4g})<br>at %{x:.4g}<extra></extra>",
    )
    has_band = bool((found.high > found.low).any())
    return [around, line] if has_band else [line]
