"""The pairs side by side: means over seeds, Pareto front and recommended pair."""

import math
import statistics
from dataclasses import dataclass
from functools import cached_property

from fedcore.coordinator.settings import lower_is_better
from fedrun import units
from fedstudies.codecs.choose import Point, pareto_front, recommended
from fedstudies.codecs.measure import last_means, per_update
from fedstudies.codecs.pairs import Pair
from fedstudies.codecs.timing import PairTimes
from fedstudies.statistics import ONE_SEED, standard_error
from fedstudies.trial import Trial, metric_of


@dataclass(frozen=True)
class Row:
    """A pair with its measurements."""

    pair: Pair
    trials: tuple[Trial, ...]
    """A trial for each seed."""
    times: PairTimes

    @cached_property
    def bytes_up(self) -> float:
        """Bytes up for each update, the mean over the seeds."""
        return statistics.fmean(per_update(t.bytes_up, t) for t in self.trials)

    @cached_property
    def bytes_down(self) -> float:
        """Bytes down for each update, those of lost tasks included."""
        return statistics.fmean(per_update(t.bytes_down, t) for t in self.trials)

    @property
    def nbytes(self) -> float:
        """Bytes for each update, both directions together."""
        return self.bytes_up + self.bytes_down

    def values(self, metric: str) -> list[float]:
        """The metric with each seed; NaN where the run broke down."""
        return [last_means(trial).get(metric, math.nan) for trial in self.trials]


def summary(row: Row) -> str:
    """The pair, its result and its bytes, in a line."""
    metric = metric_of(row.trials)
    value = units.metric(statistics.fmean(row.values(metric)))
    up, down = (f"{n:,.0f} bytes" for n in (row.bytes_up, row.bytes_down))
    return f"{row.pair}: {metric} {value}, {up} up and {down} down for each update"


@dataclass(frozen=True)
class Comparison:
    """All rows, the uncompressed one first."""

    app: str
    kind: str | None
    """The kind of the algorithm, if the config does not name one."""
    dim: int
    versions: int
    seeds: int
    tolerance: float
    rows: tuple[Row, ...]
    asked: int
    """The number of pairs to compare. There are fewer rows if it was stopped."""

    @cached_property
    def metric(self) -> str:
        """The metric by which the pairs are compared."""
        return metric_of(self.rows[0].trials)

    @property
    def lower_is_better(self) -> bool:
        """Whether the metric should fall."""
        return lower_is_better(self.metric)

    @cached_property
    def values(self) -> list[float]:
        """The metric of each row, the mean over its seeds."""
        return [statistics.fmean(row.values(self.metric)) for row in self.rows]

    @cached_property
    def known(self) -> list[int]:
        """The numbers of the rows whose bytes and metric are finite."""
        each = enumerate(zip(self.rows, self.values, strict=True))
        return [i for i, (row, value) in each if math.isfinite(row.nbytes + value)]

    @cached_property
    def errors(self) -> list[float | None]:
        """The standard error over seeds of each row's difference from the first one."""
        base = self.rows[0].values(self.metric)
        return [
            standard_error([v - b for v, b in zip(values, base, strict=True)])
            for values in (row.values(self.metric) for row in self.rows)
        ]

    @cached_property
    def _points(self) -> list[Point]:
        sign = -1.0 if self.lower_is_better else 1.0
        return [
            Point(row.nbytes, sign * value)
            for row, value in zip(self.rows, self.values, strict=True)
        ]

    @cached_property
    def front(self) -> list[bool]:
        """Which rows are on the Pareto front."""
        return pareto_front(self._points)

    @cached_property
    def taken(self) -> int | None:
        """The number of the recommended row; None if even the first learnt nothing."""
        return recommended(self._points, self.tolerance)

    def fewer(self, row: Row) -> float:
        """How many times fewer bytes a row takes than the uncompressed one."""
        return self.rows[0].nbytes / row.nbytes

    def loss(self, place: int) -> float:
        """How much worse a row is than the uncompressed one; negative: better."""
        return self._points[0].score - self._points[place].score

    # ------------------------------------------------------------------ sentences

    @property
    def advice(self) -> str:
        """The recommendation in one line."""
        if self.taken is None:
            return (
                f"take none: without compression, too, {self.metric} was not measured "
                "at the end; first see that the federation learns"
            )
        row, value = self.rows[self.taken], self.values[self.taken]
        if self.taken == 0:
            return (
                f"take no compression: no pair with fewer bytes is within "
                f"{self.tolerance:g} of its {self.metric}, {units.metric(value)}"
            )
        return (
            f"take {row.pair}: {units.digits(self.fewer(row))} times fewer bytes, "
            f"{self.metric} {units.metric(value)}, {self.against(self.taken)}"
        )

    @property
    def yaml(self) -> str | None:
        """The lines of a config that choose the recommended pair."""
        if self.taken is None:
            return None
        return self.rows[self.taken].pair.yaml(self.kind)

    def against(self, place: int) -> str:
        """A row's metric compared with that of the first one, in words."""
        loss, error = self.loss(place), self.errors[place]
        around = f" ± {2 * error:.4f}" if error else ""
        size = f"{abs(loss):.4f}{around} {'worse' if loss > 0 else 'better'} than"
        found = "as good as" if abs(loss) < 5e-5 else size
        chance = error is None or 0 < abs(loss) <= 2 * error
        return f"{found} uncompressed{', which may be chance' if chance else ''}"

    @property
    def doubts(self) -> list[str]:
        """Sentences on how far the advice can be trusted."""
        found = []
        if len(self.rows) < self.asked:
            found.append(
                f"Stopped early: {len(self.rows)} of {self.asked} pairs were measured."
            )
        if self.taken:
            error = self.errors[self.taken]
            if error is None:
                found.append(ONE_SEED)
            elif 2 * error > self.tolerance:
                found.append(
                    f"Over {self.seeds} seeds the difference of the pair to take is "
                    f"known only to ±{2 * error:.4f}; more seeds or versions narrow "
                    "it."
                )
        return found
