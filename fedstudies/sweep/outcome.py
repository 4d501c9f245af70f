"""A sweep's result: a row for each point, the best one first."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedcore.coordinator.settings import lower_is_better
from fedrun import units
from fedstudies.statistics import (
    ALPHA,
    ONE_SEED,
    Estimate,
    Paired,
    estimate,
    holm,
    paired,
)
from fedstudies.sweep.points import Point, numbers
from fedstudies.sweep.sweep import Sweep
from fedstudies.tables import with_interval
from fedstudies.trial import Group, Place, metric_of

COSTS = ("versions", "updates", "nbytes", "seconds")


@dataclass(frozen=True)
class Row(Group):
    """A point with its runs."""

    number: int
    point: Point
    errors: int
    """The number of runs that ended with an error."""

    def cost(self, name: str) -> Estimate:
        """The cost of a run, one of ``COSTS``."""
        return estimate([getattr(t, name) for t in self.trials.values()])

    def diverged(self, metric: str) -> int:
        """The number of runs that diverged."""
        return len(self.trials) - self.final(metric).size

    def remark(self, metric: str) -> str:
        """A remark on runs that failed or diverged."""
        diverged = self.diverged(metric)
        found = [f"{self.errors} failed"] if self.errors else []
        return ", ".join([*found, f"{diverged} diverged"] if diverged else found)


@dataclass(frozen=True)
class Outcome:
    """The rows in order, and the settings of the sweep."""

    app: str
    metric: str
    fields: dict[str, str]
    seeds: int
    asked: int
    """The number of runs that the sweep has."""
    rows: tuple[Row, ...]

    @property
    def done(self) -> int:
        """Runs that ended, with an error or without."""
        return sum(len(row.trials) + row.errors for row in self.rows)

    @property
    def rivals(self) -> list[Row]:
        """The points that may be as good as the best one; with one seed, all others.

        Differences are taken seed by seed, with p-values for all of them (Holm).
        """
        first, *others = [row for row in self.rows if row.final(self.metric).size]
        found = holm([self._against(first, row).p for row in others])
        return [
            row for row, p in zip(others, found, strict=True) if p is None or p >= ALPHA
        ]

    @property
    def is_clear(self) -> bool:
        """Whether the best point is better than each other by more than chance."""
        return bool(self.rows[0].final(self.metric).size) and not self.rivals

    @property
    def verdict(self) -> str:
        """The best point in a line, and whether that may be chance."""
        first, final = self.rows[0], self.rows[0].final(self.metric)
        if not final.size:
            return f"best: none; no run ended with a {self.metric}"
        value = with_interval(final)
        seeds = units.counted(final.size, "seed")
        said = f"best: {first.name}: {self.metric} {value} over {seeds}"
        rivals = self.rivals
        if not rivals:
            return said
        if len(rivals) == 1:
            return f"{said}; it may be chance that {rivals[0].name} is not as good"
        return f"{said}; it may be chance that {len(rivals)} others are not as good"

    @property
    def doubts(self) -> list[str]:
        """Sentences on how far the best point can be trusted."""
        if self.seeds == 1:
            return [ONE_SEED] if len(self.rows) > 1 else []
        if len(self.rows) < 2:
            return []
        first, second = self.rows[:2]
        found = self._against(first, second)
        if found.p is None or found.difference.half is None:
            return []
        return [
            f"against the second, {second.name}: {found.difference.mean:+.2g} ± "
            f"{found.difference.half:.2g} over {found.difference.size} seeds, "
            + (
                f"which may be chance (p = {found.p:.2g}"
                if second in self.rivals
                else f"more than chance (p = {found.p:.2g}"
            )
            + (
                f", before it is adjusted for {len(self.rows) - 1} comparisons)"
                if len(self.rows) > 2
                else ")"
            )
        ]

    def _against(self, first: Row, other: Row) -> Paired:
        return paired(first.finals(self.metric), other.finals(self.metric))

    def table(self) -> dict[str, list[Any]]:
        """The rows as columns: settings, then means and half widths of intervals."""
        columns: dict[str, list[Any]] = {"rank": list(range(1, len(self.rows) + 1))}
        columns |= self._settings(self.rows)
        columns["runs"] = [len(row.trials) for row in self.rows]
        columns["diverged"] = [row.diverged(self.metric) for row in self.rows]
        columns["failed"] = [row.errors for row in self.rows]
        estimates = {
            f"final_{self.metric}": [row.final(self.metric) for row in self.rows],
            f"best_{self.metric}": [row.best(self.metric) for row in self.rows],
            **{
                name.replace("nbytes", "bytes"): [row.cost(name) for row in self.rows]
                for name in COSTS
            },
        }
        for name, found in estimates.items():
            columns[f"{name}_mean"] = _known([each.mean for each in found])
            columns[f"{name}_half_width_95"] = [each.half for each in found]
        return columns

    def runs(self) -> dict[str, list[Any]]:
        """A row for each run that ended."""
        each = [(row, seed, t) for row in self.rows for seed, t in row.trials.items()]
        columns = self._settings([row for row, _, _ in each])
        columns["seed"] = [seed for _, seed, _ in each]
        finals = [trial.final(self.metric) for _, _, trial in each]
        bests = [trial.best(self.metric) for _, _, trial in each]
        columns[f"final_{self.metric}"] = _known(finals)
        columns[f"best_{self.metric}"] = _known(bests)
        for name in ("versions", "updates", "bytes_up", "bytes_down", "seconds"):
            columns[name] = [getattr(trial, name) for _, _, trial in each]
        return columns

    def curves(self) -> dict[str, list[Any]]:
        """A row for each evaluation of each run, with all metrics."""
        each = [(row, seed, t) for row in self.rows for seed, t in row.trials.items()]
        metrics = dict.fromkeys(name for _, _, trial in each for name in trial.metrics)
        places = [
            (row, {"seed": seed, **place})
            for row, seed, trial in each
            for place in trial.rows()
        ]
        columns = self._settings([row for row, _ in places])
        for name in ("seed", *Place._fields, *metrics):
            values = [place.get(name) for _, place in places]
            columns[name.replace("nbytes", "bytes")] = values
        return columns

    def _settings(self, rows: Sequence[Row]) -> dict[str, list[Any]]:
        """The settings of these rows as columns."""
        return {
            field: list(numbers([row.point.settings[place][1] for row in rows]))
            for place, field in enumerate(self.fields)
        }


def _known(values: Sequence[float]) -> list[float | None]:
    """The values with None in place of NaN and infinity."""
    return [value if math.isfinite(value) else None for value in values]


def outcome_of(sweep: Sweep, metric: str | None) -> Outcome | None:
    """The outcome so far.

    Args:
        sweep: the sweep.
        metric: the metric to compare by. Without it, accuracy, or the first one that
            was measured.

    Returns:
        The outcome, or None before the first result.

    Raises:
        WorkloadError: the metric was not measured.
    """
    if not sweep.trials:
        return None
    name = metric_of(list(sweep.trials.values()), metric)
    rows = [_row(sweep, number) for number in range(len(sweep.points))]
    sign = 1 if lower_is_better(name) else -1
    known = [row for row in rows if row.trials or row.errors]

    def order(row: Row) -> tuple[bool, bool, float]:
        final = row.final(name)
        mean = sign * final.mean if final.size else 0
        return not final.size, bool(row.remark(name)), mean

    return Outcome(
        app=sweep.app,
        metric=name,
        fields=sweep.fields,
        seeds=len(sweep.seeds),
        asked=sweep.size,
        rows=tuple(sorted(known, key=order)),
    )


def _row(sweep: Sweep, number: int) -> Row:
    trials = {
        seed: sweep.trials[number, seed]
        for seed in sweep.seeds
        if (number, seed) in sweep.trials
    }
    failed = sum(1 for place, _ in sweep.failures if place == number)
    return Row(sweep.name(number), trials, number, sweep.points[number], failed)
