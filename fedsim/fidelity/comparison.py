"""What was predicted against what was measured."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedcore.coordinator.settings import lower_is_better
from fedcore.typing import JSON, Seconds
from fedrun.report.thin import Floats
from fedsim.campaign.trial import metric_of
from fedsim.fidelity.distance import Distance, distance
from fedsim.fidelity.side import Side

Value = Callable[[Side], float]
MOST = 0.9  # of what the metric gains: up to there it is quick, and time tells


class Row(NamedTuple):
    """One quantity, measured and predicted."""

    what: str
    measured: float
    predicted: tuple[float, ...]
    """Of each prediction; NaN where there is none."""

    def errors(self) -> tuple[float, ...]:
        """How much too large, as a share of what was measured."""
        return tuple(
            value / self.measured - 1 if self.measured else 0.0 if not value else np.nan
            for value in self.predicted
        )


class Apart(NamedTuple):
    """Two curves over versions."""

    mean: float
    """Mean distance of the metric at versions that both have measured."""
    largest: float


class InOrder(NamedTuple):
    """The models computed anew, in the recorded order of arrival."""

    same: int
    """Versions with the same bits."""
    versions: int
    bytes_up: int


@dataclass(frozen=True)
class Fidelity:
    """A measured run and its predictions."""

    measured: Side
    predicted: Sequence[Side]
    metric: str
    target: float
    pilot: Seconds
    """Since the first task; what the calibrated prediction knows."""
    in_order: InOrder | None = None

    def seconds_to_target(self, side: Side) -> float:
        """From the first task; NaN if it never got there."""
        place = side.trial.reach(self.metric, self.target)
        return math.nan if place is None else place.seconds

    @cached_property
    def rows(self) -> list[Row]:
        """All that is one number."""
        goal = f"{self.metric} {self.target:.4g}"
        return [
            self._row(f"seconds to {goal}", self.seconds_to_target),
            self._row("seconds to the end", lambda side: side.trial.seconds),
            self._row("updates a second", lambda side: side.rate),
            self._row("updates", lambda side: side.trial.updates),
            self._row("tasks lost", lambda side: side.lost),
            self._row("mean staleness", lambda side: _mean(side.staleness)),
            self._row("95 % staleness", lambda side: _late(side.staleness)),
            self._row("bytes up", lambda side: side.trial.bytes_up),
            self._row("bytes down", lambda side: side.trial.bytes_down),
            self._row(
                f"final {self.metric}", lambda side: side.trial.final(self.metric)
            ),
        ]

    def _row(self, what: str, value: Value) -> Row:
        return Row(
            what, value(self.measured), tuple(value(side) for side in self.predicted)
        )

    def staleness(self, side: Side) -> Distance:
        """Whether a prediction's staleness is distributed as it was."""
        return distance(self.measured.staleness, side.staleness)

    def apart(self, side: Side) -> Apart:
        """How far a predicted curve is from the measured one, version by version."""
        theirs, values = side.trial.curve(self.metric, "version")
        ours, own = self.measured.trial.curve(self.metric, "version")
        _, at, own_at = np.intersect1d(theirs, ours, return_indices=True)
        if not len(at):
            return Apart(math.nan, math.nan)
        gaps = np.abs(values[at] - own[own_at])
        return Apart(float(gaps.mean()), float(gaps.max()))

    def sentences(self) -> list[str]:
        """What the numbers say, and what they do not."""
        found = [self._of(side) for side in self.predicted]
        reached = self.seconds_to_target(self.measured)
        if reached <= self.pilot:
            found.append(
                f"The target was reached within the pilot of {self.pilot:.3g} s: the "
                "calibrated time to it is no prediction; give a shorter --pilot."
            )
        if self.in_order is not None:
            same, versions, up = self.in_order
            exact = "exact" if up == self.measured.trial.bytes_up else f"{up:,}"
            found.append(
                f"In the recorded order of arrival {same} of {versions} versions have "
                f"the same bits, and the bytes up are {exact}."
            )
        return found

    def _of(self, side: Side) -> str:
        error = self.rows[0].errors()[self.predicted.index(side)]
        goal = f"{self.metric} {self.target:.4g}"
        time = (
            f"the time to {goal} is not known"
            if math.isnan(error)
            else f"the time to {goal} is {abs(error):.1%} too "
            f"{'long' if error > 0 else 'short'}"
        )
        if not len(side.staleness) or not len(self.measured.staleness):
            return f"{side.name}: {time}."
        found = self.staleness(side)
        alike = "may be one distribution" if found.may_be_chance else "differ"
        return (
            f"{side.name}: {time}; staleness: Kolmogorov-Smirnov distance "
            f"{found.statistic:.3f} (5 % bound {found.bound:.3f}), they {alike}."
        )

    def as_json(self) -> JSON:
        """Plain data; what is no number is null."""
        return {
            "metric": self.metric,
            "target": self.target,
            "pilot": self.pilot,
            "rows": {
                row.what: {
                    "measured": _plain(row.measured),
                    **{
                        side.name: _plain(value)
                        for side, value in zip(
                            self.predicted, row.predicted, strict=True
                        )
                    },
                }
                for row in self.rows
            },
            "seconds_to_target": {
                side.name: _plain(self.seconds_to_target(side))
                for side in (self.measured, *self.predicted)
            },
            "staleness": {
                side.name: self.staleness(side)._asdict()
                for side in self.predicted
                if len(side.staleness) and len(self.measured.staleness)
            },
            "curve": {
                side.name: {k: _plain(v) for k, v in self.apart(side)._asdict().items()}
                for side in self.predicted
            },
            "in_order": None if self.in_order is None else self.in_order._asdict(),
        }


def compare(
    measured: Side,
    predicted: Sequence[Side],
    metric: str | None,
    target: float | None,
    pilot: Seconds,
) -> Fidelity:
    """The comparison, up to a target.

    Without a target it is what the metric comes to after nine tenths of what it gains
    on the side that gains least.

    Raises:
        WorkloadError: the metric was not measured, or nothing was.
    """
    sides = [measured, *predicted]
    metric = metric_of([side.trial for side in sides], metric)
    if target is None:
        _, values = measured.trial.curve(metric, "version")
        first = float(values[0]) if len(values) else math.nan
        pick = max if lower_is_better(metric) else min
        best = pick(side.trial.best(metric) for side in sides)
        target = float(f"{first + MOST * (best - first):.3g}")
    return Fidelity(measured, predicted, metric, target, pilot)


def _mean(x_N: Floats) -> float:
    return float(x_N.mean()) if len(x_N) else math.nan


def _late(x_N: Floats) -> float:
    if not len(x_N):
        return math.nan
    return float(np.quantile(x_N, 0.95, method="inverted_cdf"))


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
