"""The slowdown matrix: optimisers and models by staleness."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fedcore.typing import JSON
from fedstudies.curves import COLOURS, MOST_POINTS, draw_line, figure_of
from fedstudies.frame import Findings, Outcome, Part
from fedstudies.staleness.slowdown import Row
from fedstudies.statistics import ALPHA, ONE_SEED, compare_seeds, estimate
from fedstudies.tables import Cells
from fedview.report import theme
from fedview.report.downsample import downsample

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


@dataclass
class Matrix(Outcome):
    """All rows of the study, and what they were measured by."""

    app: str
    metric: str
    target: float
    staleness: Sequence[int]
    """The largest delays in iterations; the first one is 0."""
    workers: int
    batch: int
    rows: list[Row] = field(default_factory=list)

    @property
    def heading(self) -> str:
        """A line that says what the numbers of the rows are and how they were got."""
        return (
            f"{self.app}: iterations to {self.metric} {self.target:g} of "
            f"{self.workers} workers with batches of {self.batch}, with updates up to "
            "s iterations late, divided by those without"
        )

    @property
    def verdict(self) -> str:
        """The rows that suffer most and least from the longest delays."""
        last = self.staleness[-1]
        known = [
            row for row in self.rows if row.is_reached(0) and len(row.slowdowns(last))
        ]
        if not known or not last:
            return "nothing was slowed down: no run with late updates is comparable"
        in_order = sorted(known, key=lambda row: float(row.slowdowns(last).mean()))
        least, most = in_order[0], in_order[-1]
        if most is least:
            found = estimate(most.slowdowns(last).tolist())
            is_clear = found.half is not None and abs(found.mean - 1) > found.half
            said = f"with s = {last} {most.name} takes {self.cell(most, last)} times"
            return f"{said} as long{'' if is_clear else ', which may be chance'}"
        said = (
            f"({self.cell(most, last)} times as long), {least.name} least "
            f"({self.cell(least, last)} times)"
        )
        p = compare_seeds(most.by_seed(last), least.by_seed(last)).p
        if p is not None:
            p = min(1.0, p * math.comb(len(known), 2))  # any two might have been these
        shown, who = (
            "" if p is None else f" (p = {p:.2g})",
            f"with s = {last} {most.name}",
        )
        if p is not None and p < ALPHA:
            return f"{who} suffers most {said}, more than chance{shown}"
        return f"{who} seems to suffer most {said}, which may be chance{shown}"

    @property
    def doubts(self) -> list[str]:
        """Sentences that limit the result."""
        found = []
        never = [row.name for row in self.rows if not row.is_reached(0)]
        if never:
            found.append(
                f"Even without staleness {', '.join(never)} did not always reach the "
                "target; choose another lr (--optimizer NAME:lr=...), a lower --target "
                "or more iterations (--most)."
            )
        if any(
            row.is_reached(0) and not row.is_reached(late)
            for row in self.rows
            for late in self.staleness
        ):
            found.append(
                "Slowdowns with ≥ are lower bounds: a run was given up before the "
                "target (--most)."
            )
        if len({seed for row in self.rows for _, seed in row.courses}) == 1:
            found.append(ONE_SEED)
        return found

    def drop_unfinished(self) -> None:
        """Leaves out rows without a run that the others could be compared with."""
        self.rows = [row for row in self.rows if row.iterations(0)]

    def findings(self) -> Findings:
        """Returns the matrix, and the coherence where it was computed."""
        drawn = ("slowdown by optimizer and staleness", partial(matrix_figure, self))
        parts = [Part("Slowdown", _MATRIX, self.cells(), figures=[drawn],
                      heading=self.heading)]  # fmt: skip
        coherent = [
            (
                f"gradient coherence with {row.name}",
                partial(coherence_figure, row, self),
            )
            for row in self.rows
            if any(len(row.coherence(late)) for late in self.staleness)
        ]
        if coherent:
            parts.append(
                Part(
                    "Gradient coherence",
                    _COHERENCE,
                    figures=coherent,
                    anchor="coherence",
                )
            )
        return Findings(
            title=f"Staleness and {self.app}",
            heading=self.heading,
            verdict=self.verdict,
            numbers=self.as_json(),
            parts=parts,
            doubts=self.doubts,
        )

    def cells(self) -> Cells:
        """Returns the iterations without staleness, and the slowdowns."""
        late = self.staleness[1:]
        head = ["optimizer", "iterations, s = 0", *(f"s = {s}" for s in late)]
        rows = [
            [row.name, _mean(row), *(self.cell(row, s) for s in late)]
            for row in self.rows
        ]
        return Cells(head, rows, " " + "n" * (len(head) - 1))

    @staticmethod
    def cell(row: Row, late: int) -> str:
        """Returns a slowdown, such as ``1.40 ± 0.2``; ``≥`` marks a bound."""
        found = estimate(row.slowdowns(late).tolist())
        if not found.size or not row.is_reached(0):
            return "–"
        bound = "" if row.is_reached(late) else "≥ "
        around = f" ± {found.half:.2g}" if found.half else ""
        return f"{bound}{found.mean:.2f}{around}"

    def as_json(self) -> JSON:
        """Returns all iterations, slowdowns and coherences as plain data."""
        rows = [
            {
                "name": row.name,
                "runs": [
                    {
                        "staleness": late,
                        "seed": seed,
                        "iterations": course.iterations,
                        "coherence": course.coherence_T.tolist(),
                    }
                    for (late, seed), course in row.courses.items()
                ],
                "slowdowns": {
                    str(late): row.slowdowns(late).tolist() for late in self.staleness
                },
                "most": row.most,
            }
            for row in self.rows
        ]
        return {
            "app": self.app,
            "verdict": self.verdict,
            "metric": self.metric,
            "target": self.target,
            "workers": self.workers,
            "batch": self.batch,
            "rows": rows,
        }


def _mean(row: Row) -> str:
    mean = estimate([float(count) for count in row.iterations(0)]).mean
    return f"{'' if row.is_reached(0) else '≥ '}{mean:,.0f}"


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
                [1, theme.soft(theme.VERMILION, 0.7)],
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
    figure.update_xaxes(showgrid=False)
    figure.update_yaxes(showgrid=False, autorange="reversed")
    return theme.dress(figure, theme.rows_height(len(matrix.rows)))


def coherence_figure(row: Row, matrix: Matrix) -> "Figure":
    """Draws μ over the iterations, a line for each staleness."""
    traces = []
    for colour, late in zip(COLOURS, matrix.staleness, strict=False):
        mean_T = row.coherence(late)
        if not len(mean_T):
            continue
        places = downsample(len(mean_T), MOST_POINTS)
        hover, known = f"s = {late}<br>μ = %{{y:.3g}}<br>iteration %{{x}}", places + 2
        # μ is known from the second iteration on.
        traces.append(draw_line(f"s = {late}", known, mean_T[places], hover, colour))
    figure = figure_of(traces, "iteration", f"μ with {theme.label(row.name)}", 360)
    figure.add_hline(y=0, line={"dash": "dot", "width": 1.5, "color": theme.GREY})
    figure.update_xaxes(rangemode="tozero")
    return figure
