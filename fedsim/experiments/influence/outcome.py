"""What an audit says: the influence of each client, estimated and true."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcore.coordinator.settings import lower_is_better
from fedcore.typing import JSON
from fedrun import units
from fedrun.results.evaluations import main_metric
from fedsim.experiments.influence.estimate import Settings
from fedsim.experiments.terminal import Cells

MOST_NAMES = 8  # in a sentence


class Influence(NamedTuple):
    """How the model would differ without a client."""

    changes: Mapping[str, float]
    """Of each metric on the test data: without the client, minus with it."""
    distance: float
    """The norm of the difference of the models."""


class Row(NamedTuple):
    """One client of the audit."""

    client: str
    samples: int
    updates: int
    """How many of its updates are in the model."""
    estimated: Influence
    true: Influence | None = None
    """By retraining without the client; None: that was not asked for."""
    error: float | None = None
    """‖ε - ε*‖ / ‖ε*‖ of the estimated and the true difference; None: not known."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The influence of the clients of one run."""

    run: str
    """Which one, in words."""
    versions: int
    settings: Settings
    values: Mapping[str, float]
    """The metrics of the run's model on the test data."""
    rows: Sequence[Row]
    """The client that helps most first."""

    @property
    def metric(self) -> str:
        """The metric by which the clients are ranked: the loss, where it is known."""
        return main_of(self.values)

    @property
    def is_checked(self) -> bool:
        """Whether the true influence is known too."""
        return any(row.true is not None for row in self.rows)

    def help_of(self, found: Influence) -> float:
        """How much worse the model would be without a client, by the metric."""
        return help_of(self.metric, found)

    @property
    def correlation(self) -> tuple[float, float] | None:
        """Pearson's and Spearman's, of estimated and true changes of the metric.

        None where the true influence is not known, or does not vary.
        """
        pairs = [(self.help_of(r.estimated), r.true) for r in self.rows if r.true]
        estimated = [one for one, _ in pairs]
        true = [self.help_of(other) for _, other in pairs]
        found = pearson(estimated, true), spearman(estimated, true)
        return None if math.isnan(found[0]) else found

    @property
    def doubts(self) -> list[str]:
        """What should be known before the result is used."""
        absent = [row.client for row in self.rows if not row.updates]
        said = []
        if absent:
            said.append(
                f"{_some(absent)} never took part in these {self.versions:,} versions, "
                "so the influence is 0; more versions may tell."
            )
        if self.is_checked and (found := self.correlation):
            said.append(
                "Estimated and true influence correlate with Pearson's "
                f"{found[0]:.3f} and Spearman's {found[1]:.3f}."
            )
        elif self.is_checked:
            said.append("The true influence does not vary, so nothing correlates.")
        else:
            said.append(
                "The influence is estimated; --leave-one-out retrains without each "
                "client and tells how well."
            )
        return said

    @property
    def verdict(self) -> str:
        """Who helps most, who hurts most, and who could be left out."""
        there = [row for row in self.rows if row.updates]
        if not there:
            return "none of these clients took part, so none has had any influence"
        first, last = there[0], there[-1]
        parts = []
        if self.help_of(self._best(first)) > 0:
            parts.append(f"{self._without(first)}: it helps most")
        if self.help_of(self._best(last)) < 0:
            parts.append(f"{self._without(last)}: it hurts most")
            spare = [row for row in there if self.help_of(self._best(row)) < 0]
            each = "each be" if len(spare) > 1 else "be"
            parts.append(
                f"by the {self.metric} on the test data, "
                f"{_some([row.client for row in spare])} could {each} left out"
            )
            parts += self._missed(spare)
        else:
            parts.append(f"no client hurts the {self.metric} on the test data")
        return "; ".join(parts)

    def _missed(self, spare: Sequence[Row]) -> list[str]:
        """Which clients the other metrics would not leave out."""
        found = []
        for name in self.values:
            missed = [r.client for r in spare if help_of(name, self._best(r)) > 0]
            if missed:
                found.append(f"by the {name}, {_some(missed)} would be missed")
        return found

    def _best(self, row: Row) -> Influence:
        return row.true or row.estimated

    def _without(self, row: Row) -> str:
        change = self._best(row).changes[self.metric]
        way = "higher" if change > 0 else "lower"
        kind = "" if row.true else "an estimated "
        return (
            f"without {row.client} the {self.metric} would be {kind}{abs(change):.2g} "
            f"{way}"
        )

    def cells(self) -> Cells:
        """The table of clients, the most helpful one first."""
        names = list(self.values)
        head = ["rank", "client", "samples", "updates", *names, "distance"]
        align = "r rr" + "n" * len(names) + "r"
        if self.is_checked:
            head += [f"true {name}" for name in names] + ["true distance", "error"]
            align += "n" * len(names) + "rr"
        return Cells(
            head,
            [self._cells(place, row) for place, row in enumerate(self.rows)],
            align,
        )

    def _cells(self, place: int, row: Row) -> list[str]:
        cells = [str(place + 1), row.client, f"{row.samples:,}", f"{row.updates:,}"]
        for found in (row.estimated, row.true) if self.is_checked else (row.estimated,):
            if found is None:
                cells += ["–"] * (len(self.values) + 1)
                continue
            cells += [f"{found.changes[name]:+.4f}" for name in self.values]
            cells.append(f"{found.distance:.3g}")
        if self.is_checked:
            cells.append("–" if row.error is None else f"{row.error:.1%}")
        return cells

    @property
    def heading(self) -> str:
        """Which run, and how the influence was estimated."""
        how: str = self.settings.estimator
        how += f" of {self.settings.samples} samples" if how == "fisher" else ""
        how += ", layers truncated" if self.settings.truncate else ""
        return (
            f"{self.run}, {units.counted(self.versions, 'version')}, "
            f"{units.counted(len(self.rows), 'client')}; estimator: {how}"
        )

    def as_json(self) -> JSON:
        """All numbers, for a program."""
        found = self.correlation
        return {
            "run": self.run,
            "versions": self.versions,
            "estimator": self.settings.estimator,
            "samples": self.settings.samples,
            "truncate": self.settings.truncate,
            "metric": self.metric,
            "values": dict(self.values),
            "verdict": self.verdict,
            "doubts": self.doubts,
            "pearson": None if found is None else found[0],
            "spearman": None if found is None else found[1],
            "clients": [
                {
                    "rank": place + 1,
                    "client": row.client,
                    "samples": row.samples,
                    "updates": row.updates,
                    "estimated": _as_json(row.estimated),
                    "true": None if row.true is None else _as_json(row.true),
                    "error": row.error,
                }
                for place, row in enumerate(self.rows)
            ],
        }


def main_of(values: Mapping[str, float]) -> str:
    """The metric to rank by: the loss, or the main one where no loss is measured."""
    return "loss" if "loss" in values else main_metric(list(values)) or "loss"


def help_of(metric: str, found: Influence) -> float:
    """How much worse the model would be without a client, by this metric."""
    return found.changes[metric] * (1 if lower_is_better(metric) else -1)


def pearson(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's correlation; NaN for fewer than two values, or if they are equal."""
    if len(one) < 2 or min(np.ptp(one), np.ptp(other)) == 0:
        return math.nan
    return float(np.corrcoef(one, other)[0, 1])


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's correlation of the ranks; equal values share their mean rank."""
    return pearson(_ranks(one), _ranks(other))


def _ranks(values: Sequence[float]) -> list[float]:
    found = np.asarray(values)
    below = (found[:, None] > found).sum(axis=1)
    equal = (found[:, None] == found).sum(axis=1)
    ranks: list[float] = (below + (equal - 1) / 2).tolist()
    return ranks


def _some(names: Sequence[str]) -> str:
    """Names in a sentence; of many only the first ones."""
    if len(names) > MOST_NAMES:
        more = len(names) - MOST_NAMES
        return f"{', '.join(names[:MOST_NAMES])} and {more} more"
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _as_json(found: Influence) -> JSON:
    return {"changes": dict(found.changes), "distance": found.distance}
