"""Compares each side with the first one: at the end, and up to a target."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from fedcore.coordinator.settings import lower_is_better
from fedcore.typing import JSON
from fedrun import units
from fedstudies.compare.sides import Side
from fedstudies.curves import curves_figure
from fedstudies.frame import Findings, Outcome, Part
from fedstudies.statistics import (
    ALPHA,
    Estimate,
    Paired,
    compare_seeds,
    estimate,
    holm,
    least_p,
)
from fedstudies.tables import Cells, cost_columns, with_interval
from fedstudies.trial import Place, metric_of

COSTS = {"seconds": "time", "updates": "updates", "nbytes": "payload"}
_CURVES = "The mean over the seeds with its 95 % interval; the target is dotted."
_NUMBERS = (
    "Means with 95 % intervals (Student t) over the seeds; payload counts up and down, "
    "without what carried it."
)


@dataclass(frozen=True)
class Comparison(Outcome):
    """Two sides or more; all are compared with the first."""

    sides: Sequence[Side]
    metric: str
    target: float

    def cost(self, side: Side, name: str) -> Estimate:
        """The cost of reaching the target, over the seeds that reached it."""
        return estimate([getattr(place, name) for place in self._reach(side).values()])

    def count_missed(self, side: Side) -> int:
        """The number of seeds that never reached the target."""
        return len(side.trials) - len(self._reach(side))

    @cached_property
    def differences(self) -> list[Paired]:
        """Each other side's metric at the end less that of the first, seed by seed."""
        return self._against_first(lambda side: side.finals(self.metric))

    def ratios(self, name: str) -> list[Paired]:
        """The logarithms of each other side's costs over those of the first."""

        def logs(side: Side) -> dict[int, float]:
            values = {s: getattr(p, name) for s, p in self._reach(side).items()}
            return {s: math.log(v) for s, v in values.items() if v > 0}

        return self._against_first(logs)

    def _against_first(self, of: Callable[[Side], dict[int, float]]) -> list[Paired]:
        """Compares each other side with the first, with adjusted p-values."""
        first, *others = self.sides
        found = [compare_seeds(of(side), of(first)) for side in others]
        adjusted = holm([each.p for each in found])
        return [each._replace(p=p) for each, p in zip(found, adjusted, strict=True)]

    def _reach(self, side: Side) -> dict[int, Place]:
        places = {s: t.reach(self.metric, self.target) for s, t in side.trials.items()}
        return {seed: place for seed, place in places.items() if place is not None}

    # -------------------------------------------------------------------- findings

    def findings(self) -> Findings:
        """Returns the curves, the numbers, and each side against the first."""
        draw = partial(curves_figure, self.sides, self.metric, self.target)
        shown = f"{self.metric} over versions, time and payload"
        first, *others = self.sides
        changed = [
            f"{side.name}: {line}"
            for side in others
            for line in first.differences(side) or ["the config is the same"]
        ]
        numbers = Part(
            "Numbers",
            _NUMBERS,
            cells_of(self),
            notes=changed,
            anchor="sides",
            heading=f"By {self.metric}, with costs up to {self.target:.4g}",
        )
        return Findings(
            title=f"Comparison by {self.metric}",
            heading="",
            verdict="",
            numbers=self.as_json(),
            parts=[Part("Curves", _CURVES, figures=[(shown, draw)]), numbers],
            sentences=self.sentences(),
        )

    def as_json(self) -> JSON:
        """Returns all numbers as plain data."""
        first, *others = self.sides
        ratios = {name: self.ratios(name) for name in COSTS}
        return {
            "metric": self.metric,
            "target": self.target,
            "sides": [
                {
                    "name": side.name,
                    "seeds": sorted(side.trials),
                    "final": side.final(self.metric).as_json(),
                    "best": side.best(self.metric).as_json(),
                    "to_target": {n: self.cost(side, n).as_json() for n in COSTS},
                    "missed": self.count_missed(side),
                }
                for side in self.sides
            ],
            "against_first": [
                {
                    "name": side.name,
                    "config": first.differences(side),
                    "difference": self.differences[place].as_json(),
                    "log_ratios": {n: ratios[n][place].as_json() for n in COSTS},
                }
                for place, side in enumerate(others)
            ],
            "sentences": self.sentences(),
        }

    # ------------------------------------------------------------------- sentences

    def sentences(self) -> list[str]:
        """Each other side against the first, in words."""
        ratios = {name: self.ratios(name) for name in COSTS}
        found = []
        for place, side in enumerate(self.sides[1:]):
            parts = [
                self._metric_words(self.differences[place]),
                *(self._cost_words(COSTS[n], ratios[n][place]) for n in COSTS),
            ]
            head = f"{side.name} against {self.sides[0].name}"
            found += [f"{head}:", *(f"  {part}" for part in parts if part)]
            found += self._doubts(side, self.differences[place])
        if len(self.sides) > 2 and any(each.p is not None for each in self.differences):
            found.append(
                f"P-values are adjusted for {len(self.sides) - 1} comparisons (Holm)."
            )
        missed = sum(self.count_missed(side) for side in self.sides)
        if missed:
            total = sum(len(side.trials) for side in self.sides)
            easier = "higher" if lower_is_better(self.metric) else "lower"
            found.append(
                f"{missed} of {units.amount(total, 'run')} never reach "
                f"{self.target:.4g}: costs are those of the others; a {easier} "
                "--target compares more."
            )
        return found

    def _metric_words(self, found: Paired) -> str:
        mean, half, count = found.difference
        if not count:
            return f"{self.metric} cannot be compared"
        around = f" ± {half:.2g}" if half is not None else ""
        size = f"{abs(mean):.3g}{around} {'lower' if mean < 0 else 'higher'}"
        return f"{self.metric} {size if mean else 'equal'}{_chance(found.p)}"

    def _cost_words(self, noun: str, found: Paired) -> str:
        mean, half, count = found.difference
        if not count:
            return ""
        around = ""
        if half:
            low, high = (math.exp(mean + side * half) for side in (-1, 1))
            around = f" ({units.digits(low)} to {units.digits(high)})"
        times = f"{units.digits(math.exp(mean))} times{around}"
        return f"{times} the {noun} to {self.target:.4g}{_chance(found.p)}"

    def _doubts(self, side: Side, found: Paired) -> list[str]:
        first, count = self.sides[0], found.difference.size
        if count == 1 and len(side.trials) == len(first.trials) == 1:
            return ["One seed each: no significance."]
        if count < 2:
            shared = len(side.trials.keys() & first.trials.keys())
            what = units.amount(shared, "seed")
            return [
                f"{what} in common: no significance; runs are paired by their seeds."
            ]
        if least_p(count) >= ALPHA:
            return [
                f"{count} seeds cannot give p below {least_p(count):.2g}; "
                "6 can give 0.031."
            ]
        return []


def _chance(p: float | None) -> str:
    if p is None:
        return ""
    return f" (p = {p:.2g}, {'more than' if p < ALPHA else 'may be'} chance)"


def compare(
    sides: Sequence[Side], metric: str | None = None, target: float | None = None
) -> Comparison:
    """Compares the sides.

    Args:
        sides: two sides or more.
        metric: the metric to compare by. Without it, accuracy, or the first one that
            was measured.
        target: the value of the metric up to which costs are counted. Without it, the
            first side's ``stop.target`` if all sides reach it, otherwise the worst
            mean of a side at the end.

    Raises:
        WorkloadError: the metric was not measured.
    """
    trials = [trial for side in sides for trial in side.trials.values()]
    name = metric_of(trials, metric)
    if target is None:
        target = (sides[0].config.get("stop") or {}).get("target", {}).get(name)
        if target is None or not all(_gets_to(side, name, target) for side in sides):
            target = _common(sides, name)
    return Comparison(sides, name, target)


def _gets_to(side: Side, metric: str, target: float) -> bool:
    """Whether a run of this side reaches the target."""
    return any(trial.reach(metric, target) for trial in side.trials.values())


def _common(sides: Sequence[Side], metric: str) -> float:
    """The worst mean at the end of a side that has one."""
    means = [side.final(metric) for side in sides]
    known = [found.mean for found in means if found.size]
    worst = max if lower_is_better(metric) else min
    return worst(known) if known else math.nan


def cells_of(comparison: Comparison) -> Cells:
    """Returns a row for each side: its metric, and its costs up to the target."""
    sides, metric = comparison.sides, comparison.metric
    missed = [comparison.count_missed(side) for side in sides]
    heads, costs = cost_columns(
        {name: [comparison.cost(side, name) for side in sides] for name in COSTS}
    )
    columns = [
        [side.name for side in sides],
        [str(len(side.trials)) for side in sides],
        [with_interval(side.final(metric)) for side in sides],
        [with_interval(side.best(metric)) for side in sides],
        *costs,
        [f"{count} never" if count else "" for count in missed],
    ]
    goals = [f"{head} to {comparison.target:.4g}" for head in heads]
    head = ["", "seeds", f"final {metric}", "best", *goals, ""]
    return Cells(head, list(zip(*columns, strict=True)), " rrrrrr ")
