"""The pairs as a scatter: the metric over bytes, with the Pareto front."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrun import units
from fedview.report import theme
from fedview.report.downsample import Floats
from fedview.report.ranges import axis_range

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from fedstudies.codecs.comparison import Comparison

_FAR = 3.0  # times the median loss: worse pairs would squeeze the others on the axis


def far_off(worse_by: Floats, front: Sequence[bool], tolerance: float) -> list[int]:
    """Returns the numbers of the pairs that are too bad to be shown on the axis.

    Args:
        worse_by: by how much each pair is worse than the best one; NaN where nothing
            was learnt.
        front: whether each pair is on the Pareto front; such pairs are always shown.
        tolerance: by how much a recommended pair may be worse; up to there, all pairs
            are shown.
    """
    known = np.flatnonzero(np.isfinite(worse_by)).tolist()
    if not known:
        return []
    most = _FAR * max(float(np.median(worse_by[known])), tolerance)
    if worse_by[known].max() <= 2 * most:
        return []
    return [i for i in known if worse_by[i] > most and i and not front[i]]


def beyond_axis(comparison: "Comparison") -> list[int]:
    """Returns the pairs that are too bad for the axis, by :func:`far_off`."""
    if not comparison.known:
        return []
    values = np.full(len(comparison.rows), np.nan)
    values[comparison.known] = [comparison.values[i] for i in comparison.known]
    lower = comparison.lower_is_better
    worse_by = values - np.nanmin(values) if lower else np.nanmax(values) - values
    return far_off(worse_by, comparison.front, comparison.tolerance)


def codecs_figure(comparison: "Comparison") -> "Figure":
    """Draws the pairs on a logarithmic axis, and a line through the front."""
    from plotly.graph_objects import Figure

    figure = Figure()
    known, worse = comparison.known, beyond_axis(comparison)
    front = [i for i in known if comparison.front[i]]
    front.sort(key=lambda i: comparison.rows[i].nbytes)
    rest = [i for i in known if i and not comparison.front[i] and i not in worse]
    inside = np.array([comparison.values[i] for i in known if i not in worse])
    goal = _least_accepted(comparison)
    axis = axis_range(comparison.metric, inside, [inside, np.array([goal])])
    edge = axis[1] if comparison.lower_is_better else axis[0]
    groups: list[tuple[str, Sequence[int], dict[str, Any]]] = [
        ("other pairs", rest, _marker(theme.GREY, 8)),
        (
            "Pareto front",
            front,
            {
                "mode": "lines+markers",
                "line": {"color": theme.BLUE, "width": 2, "shape": "hv"},
                **_marker(theme.BLUE, 9),
            },
        ),
        (
            "uncompressed",
            [i for i in known if i == 0],
            _marker(theme.ORANGE, 12, symbol="diamond"),
        ),
        (
            "the pair to take",
            [i for i in known if i == comparison.taken],
            # A ring: the point inside may be the uncompressed one.
            _marker(theme.GREEN, 20, symbol="circle-open", line={"width": 2.5}),
        ),
    ]
    for name, places, form in groups:
        if places:
            heights = [comparison.values[i] for i in places]
            figure.add_trace(_points(comparison, name, places, heights, form))
    if worse:
        symbol = "triangle-up" if comparison.lower_is_better else "triangle-down"
        heights, form = [edge] * len(worse), _marker(theme.GREY, 9, symbol=symbol)
        beyond = _points(comparison, "beyond the axis", worse, heights, form)
        figure.add_trace(beyond)
    _mark_least(figure, comparison)
    figure.update_xaxes(
        title_text="payload up and down for each update (log)",
        type="log",
        **_ticks([comparison.rows[i].nbytes for i in known]),
    )
    figure.update_yaxes(title_text=theme.label(comparison.metric), range=axis)
    return theme.dress(figure, 520)


def _marker(colour: str, size: int, **more: Any) -> dict[str, Any]:
    return {"marker": {"color": colour, "size": size, **more}}


def _ticks(nbytes: Sequence[float]) -> dict[str, Any]:
    """Returns ticks at 1, 2 and 5 of each decade."""
    if not nbytes:
        return {}
    low, high = (math.log10(end) for end in (min(nbytes), max(nbytes)))
    edge = 0.08 * (high - low) + 0.05
    decades = range(math.floor(low) - 1, math.ceil(high) + 1)
    values = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return {
        "tickvals": values,
        "ticktext": [units.unbroken_bytes(value) for value in values],
        "range": [low - edge, high + edge],
    }


def _points(
    comparison: "Comparison",
    name: str,
    places: Sequence[int],
    heights: Sequence[float],
    form: dict[str, Any],
) -> Any:
    from plotly.graph_objects import Scatter

    rows = [comparison.rows[i] for i in places]
    return Scatter(
        x=[row.nbytes for row in rows],
        y=heights,
        name=name,
        cliponaxis=False,
        customdata=[
            [
                theme.plain(str(comparison.rows[i].pair)),
                units.digits(comparison.fewer(comparison.rows[i])),
                comparison.values[i],
            ]
            for i in places
        ],
        hovertemplate="%{customdata[0]}<br>%{customdata[2]:.4f}<br>%{x:.4s}B, "
        "%{customdata[1]} times fewer than uncompressed<extra></extra>",
        **{"mode": "markers", **form},
    )


def _mark_least(figure: "Figure", comparison: "Comparison") -> None:
    """Adds a line at the worst value that is good enough."""
    value = _least_accepted(comparison)
    if not math.isfinite(value):
        return
    figure.add_hline(
        y=value,
        line={"dash": "dot", "width": 1.5, "color": theme.GREY},
        annotation_text=f"uncompressed, and {comparison.tolerance:g} worse",
        annotation_position="top right"
        if comparison.lower_is_better
        else "bottom right",
    )


def _least_accepted(comparison: "Comparison") -> float:
    """Returns the value that a pair must reach to be taken; NaN if there is none."""
    sign = 1 if comparison.lower_is_better else -1
    return float(comparison.values[0] + sign * comparison.tolerance)
