"""The tables of a report, for a terminal and for a page."""

import math

from fedcore.planning.paleo import SCHEMES
from fedcore.planning.scaling import Scaling
from fedrun import units
from fedstudies.scaling.report import ScaleReport, interval
from fedstudies.tables import Cells


def layer_cells(report: ScaleReport) -> Cells:
    """A row for each layer of a step, and their sum."""
    head = ("layer", "kind", "values", "MFLOP", "bytes", "ms", "share")
    rows, whole = [], report.step_seconds
    for layer, compute, memory, start in report.layer_times:
        total = compute + memory + start
        rows.append(
            (
                layer.name,
                layer.kind,
                f"{layer.parameters:,}",
                units.digits(1e-6 * layer.flops),
                units.in_bytes(layer.nbytes),
                units.digits(1e3 * total),
                _percent(total / whole),
            )
        )
    times = report.layer_times
    rows.append(
        (
            "a step",
            "",
            f"{sum(row.layer.parameters for row in times):,}",
            units.digits(1e-6 * sum(row.layer.flops for row in times)),
            units.in_bytes(sum(row.layer.nbytes for row in times)),
            units.digits(1e3 * whole),
            _percent(1.0),
        )
    )
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
