"""A sweep's result: a row for each point, the best one first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fedcore.coordinator.settings import lower_is_better
from fedcore.typing import JSON
from fedrun import units
from fedrun.config.yaml_text import value_text
from fedstudies.curves import MOST_CURVES, curves_figure
from fedstudies.frame import Findings, Outcome, Part
from fedstudies.runner import Failure
from fedstudies.statistics import (
    ALPHA,
    ONE_SEED,
    Estimate,
    Paired,
    compare_seeds,
    estimate,
    holm,
)
from fedstudies.sweep.points import Point, numbers
from fedstudies.sweep.sweep import Sweep
from fedstudies.tables import Cells, cost_columns, with_interval
from fedstudies.trial import Group, Place, metric_of
from fedview.results.columns import formats, write_columns

CAPTION = (
    "Means with 95 % intervals (Student t) over the seeds, the best first. Updates are "
    "accepted ones; payload counts up and down; time is virtual."
)
COSTS = ("versions", "updates", "nbytes", "seconds")


@dataclass(frozen=True)
class Row(Group):
    """A point with its runs."""

    number: int
    point: Point
    errors: int
    """The number of runs that ended with an error."""
    keys: Mapping[int, str] = field(default_factory=dict)
    """The digests of the runs by their seeds."""

    def cost(self, name: str) -> Estimate:
        """The cost of a run, one of ``COSTS``."""
        return estimate([getattr(t, name) for t in self.trials.values()])

    def count_diverged(self, metric: str) -> int:
        """The number of runs that diverged."""
        return len(self.trials) - self.final(metric).size

    def remark(self, metric: str) -> str:
        """A remark on runs that failed or diverged."""
        diverged = self.count_diverged(metric)
        found = [f"{self.errors} failed"] if self.errors else []
        return ", ".join([*found, f"{diverged} diverged"] if diverged else found)


@dataclass(frozen=True)
class SweepOutcome(Outcome):
    """The rows in order, and the settings of the sweep."""

    app: str
    metric: str
    fields: dict[str, str]
    seeds: int
    asked: int
    """The number of runs that the sweep has."""
    rows: tuple[Row, ...]
    failures: Mapping[str, Failure] = field(default_factory=dict)
    """The runs that ended with an error, by their names."""

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
        seeds = units.amount(final.size, "seed")
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
        return compare_seeds(first.finals(self.metric), other.finals(self.metric))

    @property
    def heading(self) -> str:
        """The numbers of points, seeds and runs, in a line."""
        points = units.amount(len(self.rows), "point")
        seeds = units.amount(self.seeds, "seed")
        runs = units.amount(self.asked, "run")
        done = "" if self.done == self.asked else f", {self.done:,} done"
        return f"{self.app}: {points}, {seeds} each, {runs}{done}"

    def findings(self) -> Findings:
        """Returns the curves of the best points, and the table of all."""
        low = " (lower is better)" if lower_is_better(self.metric) else ""
        lead = (
            f"{self.metric}{low} over versions, virtual time and payload: the mean "
            "over the seeds with its 95 % interval, as far as all seeds got."
        )
        rows = [row for row in self.rows if row.trials]
        shown = f"{self.metric} over versions, time and payload"
        drawn = (shown, partial(curves_figure, rows, self.metric))
        notes = []
        if len(rows) > MOST_CURVES:
            notes = [f"The best {MOST_CURVES} of {len(rows)} points are drawn."]
        table = Part(
            "All points",
            CAPTION,
            cells_of(self),
            anchor="points",
            heading=self.heading,
            caption=CAPTION,
            highlighted=0 if self.is_clear else None,
        )
        return Findings(
            title=f"Sweep of {self.app}",
            heading=self.heading,
            verdict=self.verdict,
            numbers=self.as_json(),
            parts=[Part("Curves", lead, figures=[drawn], notes=notes), table],
            doubts=self.doubts,
            asides=list_failures(self.failures),
        )

    def as_json(self) -> JSON:
        """Returns the points, the best one first, and the digests of their runs."""
        return {
            "app": self.app,
            "metric": self.metric,
            "verdict": self.verdict,
            "doubts": self.doubts,
            "points": [
                {
                    "name": row.name,
                    "set": row.point.texts,
                    "runs": {str(seed): key for seed, key in row.keys.items()},
                    "final": row.final(self.metric).as_json(),
                    "best": row.best(self.metric).as_json(),
                    "costs": {name: row.cost(name).as_json() for name in COSTS},
                    "diverged": row.count_diverged(self.metric),
                    "failed": row.errors,
                }
                for row in self.rows
            ],
        }

    def write_more(self, folder: Path) -> list[str]:
        """Writes tables: of the points, the runs and the curves."""
        write_columns(self.table(), folder / "table")
        write_columns(self.runs(), folder / "runs")
        write_columns(self.curves(), folder / "curves")
        return [f"tables: {folder} ({formats()})"]

    def table(self) -> dict[str, list[Any]]:
        """The rows as columns: settings, then means and half widths of intervals."""
        columns: dict[str, list[Any]] = {"rank": list(range(1, len(self.rows) + 1))}
        columns |= self._settings(self.rows)
        columns["runs"] = [len(row.trials) for row in self.rows]
        columns["diverged"] = [row.count_diverged(self.metric) for row in self.rows]
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
            columns[f"{name}_mean"] = _null_infinite([each.mean for each in found])
            columns[f"{name}_half_width_95"] = [each.half for each in found]
        return columns

    def runs(self) -> dict[str, list[Any]]:
        """A row for each run that ended."""
        each = [(row, seed, t) for row in self.rows for seed, t in row.trials.items()]
        columns = self._settings([row for row, _, _ in each])
        columns["seed"] = [seed for _, seed, _ in each]
        finals = [trial.final(self.metric) for _, _, trial in each]
        bests = [trial.best(self.metric) for _, _, trial in each]
        columns[f"final_{self.metric}"] = _null_infinite(finals)
        columns[f"best_{self.metric}"] = _null_infinite(bests)
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


def _null_infinite(values: Sequence[float]) -> list[float | None]:
    """Returns the values with None in place of NaN and infinity."""
    return [value if math.isfinite(value) else None for value in values]


def outcome_of(sweep: Sweep, metric: str | None) -> SweepOutcome | None:
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

    return SweepOutcome(
        app=sweep.app,
        metric=name,
        fields=sweep.fields,
        seeds=len(sweep.seeds),
        asked=sweep.size,
        rows=tuple(sorted(known, key=order)),
        failures=sweep.failures_by_name,
    )


def _row(sweep: Sweep, number: int) -> Row:
    trials = {
        seed: sweep.trials[number, seed]
        for seed in sweep.seeds
        if (number, seed) in sweep.trials
    }
    failed = sum(1 for place, _ in sweep.failures if place == number)
    keys = {seed: sweep.keys[number, seed] for seed in trials}
    return Row(sweep.name(number), trials, number, sweep.points[number], failed, keys)


def cells_of(outcome: SweepOutcome) -> Cells:
    """A row for each point: its settings, its results and its costs."""
    rows, metric = outcome.rows, outcome.metric
    heads, costs = cost_columns(
        {name: [row.cost(name) for row in rows] for name in COSTS}
    )
    columns = [
        [str(place) for place in range(1, len(rows) + 1)],
        *(
            [value_text(row.point.settings[place][1]) for row in rows]
            for place in range(len(outcome.fields))
        ),
        [with_interval(row.final(metric)) for row in rows],
        [with_interval(row.best(metric)) for row in rows],
        *costs,
        [row.remark(metric) for row in rows],
    ]
    head = ["#", *outcome.fields.values(), f"final {metric}", "best", *heads, ""]
    align = "r" + " " * len(outcome.fields) + "r" * (2 + len(COSTS)) + " "
    return Cells(head, list(zip(*columns, strict=True)), align)


def list_failures(failures: Mapping[str, Failure]) -> list[str]:
    """Returns the first traceback, and each error once, with its first run."""
    where: dict[str, list[str]] = {}
    for name, failure in failures.items():
        where.setdefault(failure.sentence, []).append(name)
    traces = [failure.trace.rstrip() for failure in failures.values() if failure.trace]
    found = traces[:1]
    for sentence, names in where.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        found.append(f"failed: {names[0]}{more}: {sentence}")
    return found
