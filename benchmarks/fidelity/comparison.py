"""The comparison of predictions and measurements."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from benchmarks.fidelity.distance import Distance, distance
from benchmarks.fidelity.side import Side
from fedcore.coordinator.settings import lower_is_better
from fedcore.typing import JSON, Seconds
from fedrun import units
from fedstudies.trial import metric_of
from fedview.report.downsample import Floats

Value = Callable[[Side], float]
FEW = 10  # of them the mean is off by a third, one time in three
MOST = 0.9  # of what the metric gains: up to there it is quick, and time tells


class Prediction(NamedTuple):
    """Simulations that differ in their seed alone."""

    name: str
    sides: Sequence[Side]
    """The first one has the seed of the run."""

    @property
    def first(self) -> Side:
        """That with the seed of the run."""
        return self.sides[0]


class Predicted(NamedTuple):
    """One quantity in several simulations."""

    value: float
    """With the seed of the run; NaN: it was never so."""
    low: float
    """Of all seeds."""
    high: float


class Row(NamedTuple):
    """One quantity, measured and predicted."""

    what: str
    measured: float
    predicted: tuple[Predicted, ...]

    def errors(self) -> tuple[float, ...]:
        """How much too large they are, as a share of what was measured."""
        return tuple(
            found.value / self.measured - 1
            if self.measured
            else math.nan
            if found.value
            else 0.0
            for found in self.predicted
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
    predicted: Sequence[Prediction]
    metric: str
    target: float
    pilot: Seconds
    """Since the first task; what the calibrated prediction knows."""
    in_order: InOrder | None = None
    absences: int | None = None
    """That the pilot saw from beginning to end; None: nobody went."""

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
            self._row("payload up (bytes)", lambda side: side.trial.bytes_up),
            self._row("payload down (bytes)", lambda side: side.trial.bytes_down),
            self._row(
                f"final {self.metric}", lambda side: side.trial.final(self.metric)
            ),
        ]

    def _row(self, what: str, value: Value) -> Row:
        found = ([value(side) for side in each.sides] for each in self.predicted)
        return Row(what, value(self.measured), tuple(map(_together, found)))

    def staleness(self, prediction: Prediction) -> Distance | None:
        """Whether staleness is distributed as it was, with the seed of the run.

        None: there were no updates.
        """
        ours, theirs = self.measured.staleness, prediction.first.staleness
        return distance(ours, theirs) if len(ours) and len(theirs) else None

    def apart(self, prediction: Prediction) -> Apart:
        """How far that curve is from the measured one, version by version."""
        theirs, values = prediction.first.trial.curve(self.metric, "version")
        ours, own = self.measured.trial.curve(self.metric, "version")
        _, at, own_at = np.intersect1d(theirs, ours, return_indices=True)
        if not len(at):
            return Apart(math.nan, math.nan)
        gaps = np.abs(values[at] - own[own_at])
        return Apart(float(gaps.mean()), float(gaps.max()))

    def sentences(self) -> list[str]:
        """What the numbers say, and what they do not."""
        found = [
            self._of(each, error)
            for each, error in zip(self.predicted, self.rows[0].errors(), strict=True)
        ]
        reached = self.seconds_to_target(self.measured)
        if reached <= self.pilot:
            found.append(
                f"The target was reached within the pilot of {self.pilot:.3g} s: the "
                "calibrated time to it is no prediction; give a shorter --pilot."
            )
        if self.absences is not None and self.absences < FEW:
            found.append(
                f"The pilot saw the end of {units.amount(self.absences, 'absence')}: "
                "how long clients stay away is hardly known; a longer --pilot tells."
            )
        if self.in_order is not None:
            same, versions, up = self.in_order
            exact = "exact" if up == self.measured.trial.bytes_up else f"{up:,}"
            found.append(
                f"In the recorded order of arrival {same} of {versions} versions have "
                f"the same bits, and the bytes up are {exact}."
            )
        return found

    def _of(self, prediction: Prediction, error: float) -> str:
        goal = f"{self.metric} {self.target:.4g}"
        time = (
            f"the time to {goal} is not known"
            if math.isnan(error)
            else f"the time to {goal} is {abs(error):.1%} too "
            f"{'long' if error > 0 else 'short'}"
        )
        found = self.staleness(prediction)
        if found is None:
            return f"{prediction.name}: {time}."
        alike = "may be one distribution" if found.may_be_chance else "differ"
        return (
            f"{prediction.name}: {time}; staleness: Kolmogorov-Smirnov distance "
            f"{found.statistic:.3f} (5 % bound {found.bound:.3f}), they {alike}."
        )

    def as_json(self) -> JSON:
        """Plain data; what is no number is null."""
        return {
            "metric": self.metric,
            "target": self.target,
            "pilot": self.pilot,
            "rows": {
                row.what: {"measured": _plain(row.measured)}
                | {
                    each.name: _all_plain(found)
                    for each, found in zip(self.predicted, row.predicted, strict=True)
                }
                for row in self.rows
            },
            "staleness": {
                each.name: found._asdict()
                for each in self.predicted
                if (found := self.staleness(each)) is not None
            },
            "curve": {
                each.name: _all_plain(self.apart(each)) for each in self.predicted
            },
            "in_order": None if self.in_order is None else self.in_order._asdict(),
        }


def compare(
    measured: Side,
    predicted: Sequence[Prediction],
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
    sides = [measured, *(side for each in predicted for side in each.sides)]
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


def _together(values: Sequence[float]) -> Predicted:
    known = [value for value in values if not math.isnan(value)] or [math.nan]
    return Predicted(values[0], min(known), max(known))


def _all_plain(found: Predicted | Apart) -> JSON:
    return {name: _plain(value) for name, value in found._asdict().items()}


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
