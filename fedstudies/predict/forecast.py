"""What ``fedsim predict`` finds: a prediction for each number of clients."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcore.planning.demands import RESOURCES, Demands, full_at
from fedcore.planning.throughput import Pace, Prediction
from fedcore.planning.trace import ORDER, Trace
from fedcore.typing import JSON
from fedrun import units
from fedrun.cli.plain_json import finite
from fedstudies.statistics import estimate
from fedstudies.tables import Cells


@dataclass(frozen=True)
class Forecast:
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
        """What was predicted, in a line."""
        return (
            f"{self.source}: {len(self.trace.tasks)} tasks of {self.trace.client!r}, "
            f"{units.in_seconds(self.trace.cycle)} each; {self.rule}"
        )

    @property
    def rule(self) -> str:
        """When a version is made, in words."""
        if self.pace is None:
            return "all clients train each version, and wait for each other"
        what = units.counted(self.pace.buffer, "update")
        if self.pace.is_synchronous:
            return f"a cohort of {self.pace.buffer} trains each version"
        return f"a version is made of {what}, and nobody waits"

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
            f"{units.counted(last.clients, 'client')} make "
            f"{units.digits(last.updates_per_second)} updates/s (± {self.doubt:.1%} by "
            f"the spread of {len(self.trace.tasks)} traced tasks alone), "
            f"{last.updates_per_second / first.updates_per_second:.2f} times as many "
            f"as {first.clients}"
        )
        if not np.isfinite(self.saturation):
            return f"{said}; nothing that clients share is ever full"
        many = units.counted(math.ceil(self.saturation), "client")
        if self.waits:
            return (
                f"{said}; if clients did not wait for each other, the "
                f"{self.bottleneck} would be full from {many} on"
            )
        return f"{said}; the {self.bottleneck} is full from {many} on"

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
