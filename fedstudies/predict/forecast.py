"""The result of ``fedsim predict``: a prediction for each number of clients."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fedcore.planning.demands import RESOURCES, Demands, full_at
from fedcore.planning.throughput import Pace, Prediction
from fedcore.planning.trace import ORDER, Trace
from fedcore.typing import JSON
from fedrun import units
from fedrun.cli.plain_json import finite
from fedstudies.curves import COLOURS, draw_line, figure_of
from fedstudies.frame import Findings, Outcome, Part
from fedstudies.statistics import estimate
from fedstudies.tables import Cells
from fedview.report import theme

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


@dataclass(frozen=True)
class Forecast(Outcome):
    """The predictions, from the fewest clients to the most."""

    source: str
    trace: Trace
    demands: Demands
    pace: Pace | None
    """None: a cohort of all clients trains each version."""
    rows: Sequence[Prediction]
    doubts: Sequence[str]

    @property
    def heading(self) -> str:
        """The trace and the rule of the predictions, in a line."""
        return (
            f"{self.source}: {len(self.trace.tasks)} tasks of {self.trace.client!r}, "
            f"{units.in_seconds(self.trace.cycle)} each; {self.rule}"
        )

    @property
    def rule(self) -> str:
        """When a version is made, in words."""
        if self.pace is None:
            return "all clients train each version, and wait for each other"
        what = units.amount(self.pace.buffer, "update")
        if self.pace.is_synchronous:
            return f"a cohort of {self.pace.buffer} trains each version"
        return f"a version is made of {what}, at most twice its share by one client"

    @property
    def doubt(self) -> float:
        """Half the 95 % interval of the traced task's mean time, as a share of it.

        So far the predictions may be off since the trace has few tasks.
        """
        found = estimate([task.cycle for task in self.trace.tasks])
        return (found.half or 0.0) / found.mean if found.mean else 0.0

    @property
    def saturation(self) -> float:
        """The number of clients that fill the first shared resource.

        Downloads are as large as those of the most clients that are predicted.
        """
        last = self.rows[-1]
        return full_at(last.clients, last.bounds)

    @property
    def bottleneck(self) -> str:
        """The shared resource that is full first."""
        bounds = self.rows[-1].bounds
        return min(RESOURCES, key=lambda name: bounds[name])

    @property
    def waits(self) -> bool:
        """Whether clients wait for each other."""
        return self.pace is None or self.pace.is_synchronous

    @property
    def verdict(self) -> str:
        """The result in a sentence, without a full stop."""
        first, last = self.rows[0], self.rows[-1]
        said = (
            f"{units.amount(last.clients, 'client')} make "
            f"{units.digits(last.updates_per_second)} updates/s (± {self.doubt:.1%} by "
            f"the spread of {len(self.trace.tasks)} traced tasks alone), "
            f"{last.updates_per_second / first.updates_per_second:.2f} times as many "
            f"as {first.clients}"
        )
        if not np.isfinite(self.saturation):
            return f"{said}; nothing that clients share is ever full"
        many = units.amount(math.ceil(self.saturation), "client")
        if self.waits:
            return (
                f"{said}; if clients did not wait for each other, the "
                f"{self.bottleneck} would be full from {many} on"
            )
        return f"{said}; the {self.bottleneck} is full from {many} on"

    def findings(self) -> Findings:
        """Returns the rates, what limits them, and what they rest on."""
        rates = ("updates per second by clients", partial(rates_figure, self))
        use = ("utilisation by clients", partial(use_figure, self))
        late = ("share of updates by staleness", partial(staleness_figure, self))
        return Findings(
            title=f"Throughput from {self.source}",
            heading=self.heading,
            verdict=self.verdict,
            numbers=self.as_json(),
            parts=[
                Part(
                    "Throughput",
                    _RATES,
                    self.cells(),
                    figures=[rates],
                    heading=self.heading,
                ),
                Part("Utilisation", _USE, figures=[use]),
                Part("Staleness", _LATE, figures=[late]),
                Part("Trace", _TRACE, on_page=self.phase_cells()),
            ],
            doubts=self.doubts,
        )

    def cells(self) -> Cells:
        """A row for each number of clients."""
        head = [
            "clients",
            "updates/s",
            "at most",
            "bound by",
            "versions/s",
            *(f"{name} %" for name in (*RESOURCES, "client")),
            "staleness",
            "95 %",
        ]
        rows = [
            [
                str(row.clients),
                units.digits(row.updates_per_second),
                units.digits(row.bounds[row.limit]),
                row.limit,
                units.digits(row.versions_per_second),
                *(f"{100 * row.utilisation[n]:.0f}" for n in (*RESOURCES, "client")),
                f"{mean_staleness(row):.2f}",
                str(late_staleness(row)),
            ]
            for row in self.rows
        ]
        return Cells(head, rows, "rrr rrrrrrr")

    def phase_cells(self) -> Cells:
        """The traced phases: mean, share and bytes."""
        cycle = self.trace.cycle
        rows = [
            [name, units.in_seconds(mean), f"{100 * mean / cycle:.0f}"]
            for name in ORDER
            if (mean := self.trace.mean(name))
        ]
        return Cells(["phase", "mean time", "% of a task"], rows, " rr")

    def as_json(self) -> JSON:
        """The predictions as plain data."""
        return {
            "source": self.source,
            "client": self.trace.client,
            "tasks": len(self.trace.tasks),
            "task_seconds": self.trace.cycle,
            "phases": {name: self.trace.mean(name) for name in ORDER},
            "doubt": self.doubt,
            "rule": self.rule,
            "bottleneck": self.bottleneck,
            "saturation": finite(self.saturation),
            "doubts": list(self.doubts),
            "predictions": [
                {
                    "clients": row.clients,
                    "updates_per_second": row.updates_per_second,
                    "versions_per_second": row.versions_per_second,
                    "utilisation": dict(row.utilisation),
                    "bounds": finite(dict(row.bounds)),
                    "bound_by": row.limit,
                    "staleness": row.staleness_T.tolist(),
                    "seconds": dict(row.seconds),
                    "updates": row.updates,
                }
                for row in self.rows
            ],
        }


def mean_staleness(row: Prediction) -> float:
    """The mean staleness of an update."""
    counts_T = row.staleness_T
    return float(np.arange(len(counts_T)) @ counts_T / max(1, counts_T.sum()))


def late_staleness(row: Prediction) -> int:
    """The staleness that 95 % of the updates do not exceed."""
    shares_T = np.cumsum(row.staleness_T) / max(1, row.staleness_T.sum())
    return int(np.searchsorted(shares_T, 0.95 - 1e-12))


def rates_figure(forecast: Forecast) -> "Figure":
    """Draws updates per second over clients, with the bounds."""
    clients = [row.clients for row in forecast.rows]
    rates = [row.updates_per_second for row in forecast.rows]
    hover, mode = "%{x} clients: %{y:.3g} updates/s", "lines+markers"
    traces = [draw_line("predicted", clients, rates, hover, theme.BLUE, mode=mode)]
    ceiling, dashed = 1.6 * max(rates), {"dash": "dash"}
    for colour, name in zip(COLOURS[1:], ("clients", *RESOURCES), strict=False):
        bounds = [row.bounds[name] for row in forecast.rows]
        if name == "clients" or min(bounds) <= ceiling:
            most = f"most that the {name} allow{'' if name == 'clients' else 's'}"
            hover = f"{name}: at most %{{y:.3g}} updates/s"
            traces.append(
                draw_line(most, clients, bounds, hover, colour, width=1.5, line=dashed)
            )
    figure = figure_of(traces, "clients", "updates/s", 380)
    if forecast.saturation <= clients[-1] and not forecast.waits:
        figure.add_vline(
            x=forecast.saturation,
            line={"color": theme.GREY, "dash": "dot"},
            annotation_text=f"{forecast.bottleneck} full",
        )
    figure.update_yaxes(range=[0, ceiling])
    return figure


def use_figure(forecast: Forecast) -> "Figure":
    """Draws the utilisation of each resource over clients."""
    clients, traces = [row.clients for row in forecast.rows], []
    for colour, name in zip(COLOURS, (*RESOURCES, "client"), strict=False):
        used = [100 * row.utilisation[name] for row in forecast.rows]
        hover, mode = f"{name}: %{{y:.0f}} %", "lines+markers"
        traces.append(draw_line(name, clients, used, hover, colour, mode=mode))
    figure = figure_of(traces, "clients", "% in use", 340)
    figure.update_yaxes(range=[0, 105])
    return figure


def staleness_figure(forecast: Forecast) -> "Figure":
    """Draws the share of the updates by staleness, in a colour for each W."""
    from plotly.graph_objects import Bar

    traces = [
        Bar(
            x=np.arange(len(row.staleness_T)),
            y=100 * row.staleness_T / max(1, row.staleness_T.sum()),
            name=units.amount(row.clients, "client"),
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate=f"{row.clients} clients: %{{y:.1f}} % are %{{x}} "
            "versions late<extra></extra>",
        )
        for colour, row in zip(COLOURS, forecast.rows[-len(COLOURS) :], strict=False)
    ]
    figure = figure_of(traces, "staleness (versions)", "% of the updates", 340)
    figure.update_yaxes(rangemode="tozero")
    return figure
