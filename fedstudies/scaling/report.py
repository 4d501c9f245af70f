"""The report of ``fedsim scale``: predicted times, scaling, and the batch limit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from fedcore.planning.batch_limit import BatchLimit
from fedcore.planning.paleo import (
    SCHEMES,
    Device,
    Exchange,
    LayerTime,
    Link,
    layer_time,
    round_time,
    star,
    step_time,
)
from fedcore.planning.scaling import Scaling, amdahl, best_workers, scaling
from fedcore.typing import Seconds
from fedrun import units
from fedrun.cli.plain_json import finite
from fedstudies.curves import COLOURS, draw_line, figure_of
from fedstudies.frame import Findings, Outcome, Part
from fedstudies.prices.price_file import MachinesConfig
from fedstudies.scaling.gradients import Limits
from fedstudies.scaling.layers import Step
from fedstudies.scaling.machines import Machines
from fedstudies.statistics import student_t
from fedstudies.tables import Cells
from fedview.report import theme

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

OURS = "star"  # the federation's own way to exchange
_LAYERS = (
    "What each layer computes and moves in a training step of one batch, forward and "
    "backward, and what the model of Paleo says that it takes."
)
_COMMUNICATION = (
    "Seconds of one exchange. The star is the federation's own: a server, with the "
    "bytes of the codecs. The others are those of Paleo, with uncompressed models."
)
_SCALING = (
    "The speed-up for a fixed total work (strong scaling), and the efficiency for a "
    "fixed work of each worker (weak scaling)."
)
_LIMIT = (
    "How alike gradients are. The more alike, the sooner averaging more of them brings "
    "nothing: n·Δ is the limit by gradient diversity among those measured, and what is "
    "flagged is 1 + the noise scale, which has no bias by their number."
)


@dataclass(frozen=True, kw_only=True)
class ScaleReport(Outcome):
    """The numbers of a report; an unknown one is None, with a doubt in words."""

    app: str
    workers: Sequence[int]
    exchange: Exchange
    link: Link
    limits: Mapping[str, Limits]
    """By the model at which the gradients were computed: ``initial`` or a run."""
    averaged: int
    """How many updates make a version."""
    device: Device | None
    step: Step | None
    """None of an app that is no torch module."""
    steps: int
    """Local steps of a task."""
    measured: Scaling | None
    doubts: Sequence[str]
    prices: MachinesConfig | None = None
    links: Sequence[Link] = ()
    """Of each kind of machine that has a price."""

    # --------------------------------------------------------------------- predicted

    @property
    def layer_times(self) -> list[LayerTime]:
        """The times of each layer in a step; empty where the layers are unknown."""
        if self.step is None or self.device is None:
            return []
        return [layer_time(layer, self.device) for layer in self.step.layers]

    @property
    def step_seconds(self) -> Seconds:
        """The seconds of a step; 0 where the layers are unknown."""
        return sum(row.total for row in self.layer_times)

    def communication(self, scheme: str) -> list[Seconds]:
        """Returns the seconds of one exchange, by number of workers."""
        find = SCHEMES[scheme]
        return [find(n, self.exchange, self.link) for n in self.workers]

    def scaling(self, scheme: str = OURS, *, overlap: bool = False) -> Scaling | None:
        """Strong and weak scaling of a round; None where the layers are unknown.

        At fixed total work, the most workers take the steps that the config says, and
        fewer workers take more of them each. At fixed work of each worker, all take
        those of the config.
        """
        if not self.step_seconds:
            return None
        sent = self.communication(scheme)
        return self._scaling(self.step_seconds, sent, overlap=overlap)

    @property
    def machines(self) -> Machines | None:
        """The kinds of machines with a price; None where the layers are unknown."""
        if self.step is None or self.prices is None:
            return None
        found = []
        for kind, link in zip(self.prices.machines, self.links, strict=True):
            sent = [star(n, self.exchange, link) if n > 1 else 0 for n in self.workers]
            found.append(self._scaling(step_time(self.step.layers, kind), sent))
        return Machines(prices=self.prices, scalings=found)

    def _scaling(
        self, step: Seconds, sent: Sequence[Seconds], *, overlap: bool = False
    ) -> Scaling:
        strong, weak, most = {}, {}, max(self.workers)
        own = self.steps * step
        for n, seconds in zip(self.workers, sent, strict=True):
            strong[n] = round_time(own * most / n, seconds, overlap=overlap)
            weak[n] = round_time(own, seconds, overlap=overlap)
        return scaling(strong, weak)

    # ----------------------------------------------------------------------- in words

    @property
    def verdict(self) -> str:
        """The batch limit of clients as a sentence, at the last model."""
        where, limits = list(self.limits.items())[-1]
        found = limits.of_clients
        if found is None:
            return limits.reasons[0]
        at = (
            f"at the {where} model"
            if where == "initial"
            else f"at the model of {where}"
        )
        limit, (low, high) = max(1.0, found.beyond), interval(found)
        if math.isinf(limit):
            least = f", or at {low:.0f} or more with 95 % confidence" if low > 1 else ""
            return (
                f"{at}, the gradients of {found.count} clients hardly agree, and no "
                f"limit is in sight{least}: every client more makes an update of the "
                "model more precise"
            )
        text = (
            f"beyond {units.amount(round(limit), 'client')} {_in_words(low, high)} a "
            f"version, more clients bring less and less ({at}): their gradients repeat "
            "each other"
        )
        where = f"the config averages {self.averaged}, which is"
        if self.averaged > high:
            return f"{text}; {where} above the limit"
        if self.averaged <= max(low, 1):
            return f"{text}; {where} within the limit"
        is_above = "above" if self.averaged > found.beyond else "within"
        return f"{text}; {where} {is_above} the limit, which may be chance"

    @property
    def sentences(self) -> list[str]:
        """The doubts, and the fastest number of workers, in words."""
        found = [*self.doubts]
        if (ours := self.scaling()) is not None and len(self.workers) > 1:
            times = dict(zip(ours.workers, ours.strong, strict=True))
            best = best_workers(times)
            found.append(
                f"For a fixed total work, {units.amount(best, 'worker')} "
                f"{'is' if best == 1 else 'are'} the fastest of those asked for, "
                f"{units.digits(ours.speedups[ours.workers.index(best)])} times as "
                "fast as one; by Amdahl's law, "
                f"{units.digits(100 * ours.serial_share)} % of the time of one worker "
                "cannot be shared."
            )
        return found + (self.machines.sentences if self.machines else [])

    def findings(self) -> Findings:
        """Returns the limit, the layers, the exchange and the scaling."""
        counts = ", ".join(map(str, self.workers))
        return Findings(
            title=f"Scaling of {self.app}",
            heading=f"{counts} workers",
            verdict=self.verdict,
            numbers=self.as_json(),
            parts=self._parts(),
            doubts=self.sentences,
        )

    def _parts(self) -> list[Part]:
        reasons = [why for limits in self.limits.values() for why in limits.reasons]
        notes = [f"{why[0].upper()}{why[1:]}." for why in reasons]
        parts = [
            Part("Batch limit", _LIMIT, limit_cells(self), notes=notes, anchor="limit")
        ]
        if self.layer_times:
            drawn = ("seconds by layer", partial(layer_figure, self))
            heading = "A training step"
            parts.append(
                Part(
                    "Layers",
                    _LAYERS,
                    layer_cells(self),
                    figures=[drawn],
                    heading=heading,
                )
            )
        cells = communication_cells(self)
        parts.append(
            Part("Communication", _COMMUNICATION, cells, heading="One exchange")
        )
        if (found := self.scaling()) is not None:
            figures = [
                ("speed-up by number of workers", partial(speedup_figure, self)),
                ("efficiency by number of workers", partial(efficiency_figure, self)),
            ]
            cells = scaling_cells(found)
            parts.append(
                Part(
                    "Predicted scaling",
                    _SCALING,
                    cells,
                    figures=figures,
                    anchor="scaling",
                )
            )
        if self.machines is not None and self.step is not None:
            last = [*self.limits.values()][-1]
            parts += self.machines.parts(last.of_samples, self.step.batch)
        if self.measured is not None:
            lead = "The same for the runs that were given, from their own times."
            parts.append(Part("Measured scaling", lead, scaling_cells(self.measured)))
        return parts

    # ----------------------------------------------------------------------- as data

    def as_json(self) -> dict[str, Any]:
        """The report as plain data; a number that is unknown or infinite is None."""
        value = {
            "app": self.app,
            "verdict": self.verdict,
            "sentences": self.sentences,
            "workers": list(self.workers),
            "averaged": self.averaged,
            "device": None if self.device is None else self.device.model_dump(),
            "link": self.link._asdict(),
            "exchange": self.exchange._asdict(),
            "batch": None if self.step is None else self.step.batch,
            "steps": self.steps,
            "unknown_operations": [] if self.step is None else self.step.unknown,
            "layers": [
                {
                    **asdict(row.layer),
                    "seconds": row.total,
                    "share": row.total / self.step_seconds,
                }
                for row in self.layer_times
            ],
            "step_seconds": self.step_seconds or None,
            "communication": {name: self.communication(name) for name in SCHEMES},
            "scaling": {
                name: {
                    "sum": _scaling_json(self.scaling(name)),
                    "overlapped": _scaling_json(self.scaling(name, overlap=True)),
                }
                for name in SCHEMES
            },
            "measured": _scaling_json(self.measured),
            "machines": None if self.machines is None else self.machines.as_json(),
            "limits": {
                where: {
                    "samples": _limit_json(limits.of_samples),
                    "clients": _limit_json(limits.of_clients),
                    "reasons": limits.reasons,
                }
                for where, limits in self.limits.items()
            },
        }
        found: dict[str, Any] = finite(value)
        return found


_EQUAL = 1e6  # ‖G‖² / tr(Σ) of gradients that are the same but for rounding


def interval(found: BatchLimit) -> tuple[float, float]:
    """The 95 % interval of the number beyond which gradients repeat each other.

    It is that of its inverse, by a jackknife. What is not known is 1 to infinity.
    """
    error, centre = found.precision_error, found.precision
    if centre > _EQUAL:
        return 1.0, 1.0
    if math.isnan(error):
        return 1.0, math.inf
    half = student_t(len(found.without) - 1) * error
    low, high = centre - half, centre + half
    return 1 + 1 / high if high > 0 else math.inf, 1 + 1 / low if low > 0 else math.inf


def _in_words(low: float, high: float) -> str:
    """An interval: ``(12 to 55 with 95 % confidence)``."""
    if low <= 1 and math.isinf(high):
        return "(a guess: too few were measured)"
    if low == high:
        return "(their gradients are equal)"
    if math.isinf(high):
        return f"({low:.0f} or more with 95 % confidence)"
    return f"({low:.0f} to {high:.0f} with 95 % confidence)"


def _scaling_json(found: Scaling | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "workers": list(found.workers),
        "strong_seconds": list(found.strong),
        "weak_seconds": list(found.weak),
        "speedups": found.speedups,
        "efficiencies": found.efficiencies,
        "scaled_speedups": found.scaled_speedups,
        "karp_flatt": found.karp_flatt,
        "serial_share": found.serial_share,
    }


def _limit_json(found: BatchLimit | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "count": found.count,
        "diversity": found.diversity,
        "limit": found.limit,
        "noise_scale": found.noise_scale,
        "beyond_95": list(interval(found)),
        "beyond": found.beyond,
    }


def layer_cells(report: ScaleReport) -> Cells:
    """A row for each layer of a step, and their sum."""
    head = ("layer", "kind", "values", "MFLOP", "bytes", "ms", "share")
    times, whole = report.layer_times, report.step_seconds
    layers = [each.layer for each in times]

    def row(
        name: str, kind: str, values: int, flops: float, nbytes: float, seconds: Seconds
    ) -> tuple[str, ...]:
        return (
            name,
            kind,
            f"{values:,}",
            units.digits(1e-6 * flops),
            units.in_bytes(nbytes),
            units.digits(1e3 * seconds),
            _percent(seconds / whole),
        )

    rows = [
        row(of.name, of.kind, of.parameters, of.flops, of.nbytes, each.total)
        for of, each in zip(layers, times, strict=True)
    ]
    sums = (
        sum(of.parameters for of in layers),
        sum(of.flops for of in layers),
        sum(of.nbytes for of in layers),
    )
    rows.append(row("a step", "", *sums, whole))
    return Cells(head, rows, "  nnnnn")


def communication_cells(report: ScaleReport) -> Cells:
    """The seconds of one exchange by number of workers and scheme."""
    columns = [report.communication(scheme) for scheme in SCHEMES]
    rows = [
        (f"{n}", *(units.in_seconds(seconds) for seconds in row))
        for n, *row in zip(report.workers, *columns, strict=True)
    ]
    names = [name.replace("_", " ") for name in SCHEMES]
    return Cells(("workers", *names), rows, "n" * (1 + len(names)))


def scaling_cells(found: Scaling) -> Cells:
    """Strong and weak scaling by number of workers."""
    head = (
        "workers",
        "same total",
        "speed-up",
        "Karp–Flatt",
        "same each",
        "efficiency",
        "scaled speed-up",
    )
    rows = [
        (
            f"{n}",
            units.in_seconds(strong),
            units.digits(speedup),
            "–" if serial is None else units.digits(serial),
            units.in_seconds(weak),
            _percent(efficiency),
            units.digits(scaled),
        )
        for n, strong, speedup, serial, weak, efficiency, scaled in zip(
            found.workers,
            found.strong,
            found.speedups,
            found.karp_flatt,
            found.weak,
            found.efficiencies,
            found.scaled_speedups,
            strict=True,
        )
    ]
    return Cells(head, rows, "n" * len(head))


def limit_cells(report: ScaleReport) -> Cells:
    """The batch limits by model, of samples and of clients."""
    head = (
        "model",
        "gradients of",
        "measured",
        "n·Δ",
        "noise scale",
        "flagged beyond",
        "95 %",
    )
    rows = []
    for where, limits in report.limits.items():
        for whose, found in (
            ("samples", limits.of_samples),
            ("clients", limits.of_clients),
        ):
            if found is None:
                continue
            numbers = (found.limit, found.noise_scale, found.beyond)
            around = " to ".join(map(_number, interval(found)))
            cells = (*map(_number, numbers), around)
            rows.append((where, whose, f"{found.count}", *cells))
    return Cells(head, rows, "  nnnnr")


def _number(value: float) -> str:
    return "none in sight" if math.isinf(value) else units.digits(value)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def layer_figure(report: ScaleReport) -> "Figure":
    """Draws a bar for each layer, in parts: computing, memory, starting operations."""
    from plotly.graph_objects import Bar

    rows = report.layer_times
    traces = [
        Bar(
            y=[theme.label(row.layer.name) for row in rows],
            x=[1e3 * getattr(row, cause) for row in rows],
            name=cause,
            orientation="h",
            marker={"color": colour},
            hovertemplate=f"%{{y}}<br>{cause}: %{{x:.3g}} ms<extra></extra>",
        )
        for colour, cause in zip(COLOURS, ("compute", "memory", "start"), strict=False)
    ]
    height = theme.rows_height(len(rows))
    figure = figure_of(traces, "milliseconds of a step", "", height)
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed")
    return figure


def speedup_figure(report: ScaleReport) -> "Figure":
    """Draws strong scaling: each scheme, the ideal, and Amdahl's fit to the star."""
    workers = list(report.workers)
    lines = _by_scheme(report, "speedups")
    ours = report.scaling(OURS)
    assert ours is not None
    lines["Amdahl's fit to the star"] = [amdahl(ours.serial_share, n) for n in workers]
    lines["as many times as workers"] = [float(n) for n in workers]
    if report.measured is not None:
        lines["measured"] = report.measured.speedups
    figure = _lines(report, lines, "speed-up at fixed total work")
    figure.update_yaxes(type="log")  # else the ideal hides all others
    return figure


def efficiency_figure(report: ScaleReport) -> "Figure":
    """Draws weak scaling of each scheme."""
    lines = _by_scheme(report, "efficiencies")
    if report.measured is not None:
        lines["measured"] = report.measured.efficiencies
    return _lines(report, lines, "efficiency at fixed work each")


def _by_scheme(report: ScaleReport, name: str) -> dict[str, list[float]]:
    """Returns a field of the predicted scaling of each scheme."""
    found = {scheme: report.scaling(scheme) for scheme in SCHEMES}
    return {
        scheme.replace("_", " "): getattr(each, name) for scheme, each in found.items()
    }


def _lines(report: ScaleReport, lines: dict[str, list[float]], title: str) -> "Figure":
    workers, traces = list(report.workers), []
    for colour, (name, values) in zip(COLOURS, lines.items(), strict=False):
        own = name == "measured" and report.measured
        over = list(own.workers) if own else workers
        hover = f"{name}<br>%{{x}} workers: %{{y:.3g}}"
        mode = "lines+markers"
        traces.append(draw_line(name, over, values, hover, colour, mode=mode))
    figure = figure_of(traces, "workers", title, 360)
    figure.update_xaxes(type="log", tickvals=workers)
    figure.update_yaxes(rangemode="tozero")
    return figure
