"""The pairs side by side: means over seeds, Pareto front and recommended pair."""

import math
import statistics
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from fedcore.coordinator.settings import lower_is_better
from fedcore.typing import JSON
from fedrun import units
from fedstudies.codecs.choose import Point, pareto_front, recommend
from fedstudies.codecs.measure import last_means, per_update
from fedstudies.codecs.pairs import Pair, plain
from fedstudies.codecs.scatter import beyond_axis, codecs_figure
from fedstudies.codecs.timing import PairTimes
from fedstudies.frame import Findings, Outcome, Part
from fedstudies.statistics import ONE_SEED, standard_error
from fedstudies.tables import Cells
from fedstudies.trial import Trial, metric_of

CAPTION = (
    "An uplink has an error memory around it where it is a contraction, unless it is "
    "written as YAML. Bytes are for each update, and those down include lost tasks; "
    "times are medians, both directions together."
)
_HEAD = ("bytes up", "bytes down", "times fewer", "encode ms", "decode ms")
_TIMES = ("encode up, down", "decode up, down")


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
        """Returns the metric with each seed; NaN where the run broke down."""
        return [last_means(trial).get(metric, math.nan) for trial in self.trials]


def summary(row: Row) -> str:
    """Returns the pair, its result and its bytes, in a line."""
    metric = metric_of(row.trials)
    value = units.metric(statistics.fmean(row.values(metric)))
    up, down = (f"{n:,.0f} bytes" for n in (row.bytes_up, row.bytes_down))
    return f"{row.pair}: {metric} {value}, {up} up and {down} down for each update"


@dataclass(frozen=True)
class Comparison(Outcome):
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
        return recommend(self._points, self.tolerance)

    def fewer(self, row: Row) -> float:
        """Returns how many times fewer bytes a row takes than the uncompressed one."""
        return self.rows[0].nbytes / row.nbytes

    def loss(self, place: int) -> float:
        """Returns how much worse a row is than the first one; negative: better."""
        return self._points[0].score - self._points[place].score

    # ------------------------------------------------------------------- findings

    @property
    def heading(self) -> str:
        """The app, how many pairs, versions and seeds, and the model's size."""
        seeds = units.amount(self.seeds, "seed")
        return (
            f"{self.app}: {units.amount(len(self.rows), 'pair')} of codecs, "
            f"{units.amount(self.versions, 'version')}, {seeds}, "
            f"{units.amount(self.dim, 'value')} in the model"
        )

    def findings(self) -> Findings:
        """Returns the scatter, the table, and the pair to take."""
        low = " (lower is better)" if self.lower_is_better else ""
        lead = (
            f"Each point is a pair: {self.metric}{low}, the mean of the last quarter "
            "of the evaluations, over the payload bytes up and down for each update. "
            "On the Pareto front no other pair is better in both."
        )
        drawn = (f"{self.metric} over bytes", partial(codecs_figure, self))
        front = Part(
            "What bytes buy", lead, figures=[drawn], notes=self._notes(), anchor="front"
        )
        pairs = Part(
            "All pairs",
            CAPTION,
            self._cells(),
            self._cells_on_page(),
            anchor="pairs",
            heading=self.heading,
            caption=CAPTION,
            highlighted=self.taken,
        )
        return Findings(
            title=f"Codecs for {self.app}",
            heading=self.heading,
            verdict=self.advice,
            numbers=self.as_json(),
            parts=[front, pairs],
            doubts=self.doubts,
            yaml=self.yaml,
            is_warning=not self.taken,
        )

    def _notes(self) -> list[str]:
        known, names = set(self.known), [str(row.pair) for row in self.rows]
        lost = [name for place, name in enumerate(names) if place not in known]
        worse = [f"{names[i]}: {self.values[i]:.4f}" for i in beyond_axis(self)]
        said = {
            "Not drawn, since nothing was learnt": lost,
            "Triangles at the edge stand for pairs beyond the axis": worse,
        }
        return [f"{what}: {'; '.join(which)}." for what, which in said.items() if which]

    def _cells(self) -> Cells:
        """Returns a row for each pair."""
        heads = [name.replace(" ", "\n") for name in _HEAD]
        rows = [
            [*row.pair.names, *_numbers(self, place), _mark(self, place)]
            for place, row in enumerate(self.rows)
        ]
        head = ["uplink", "downlink", self.metric, *heads, ""]
        return Cells(head, rows, "bbnnnnnn ")

    def _cells_on_page(self) -> Cells:
        """Returns the same with the times of both directions.

        The verdict stands beside the names, so that it is on the screen where the table
        is wider than the page.
        """
        rows = [
            [
                *row.pair.names,
                _mark(self, place),
                *_numbers(self, place),
                f"{row.times.up.encode:.3f}, {row.times.down.encode:.3f}",
                f"{row.times.up.decode:.3f}, {row.times.down.decode:.3f}",
            ]
            for place, row in enumerate(self.rows)
        ]
        head = ["uplink", "downlink", "verdict", self.metric, *_HEAD, *_TIMES]
        return Cells(head, rows, "   nnnnnnnn")

    def as_json(self) -> JSON:
        """Returns all numbers as plain data."""
        return {
            "app": self.app,
            "values": self.dim,
            "versions": self.versions,
            "seeds": self.seeds,
            "tolerance": self.tolerance,
            "metric": self.metric,
            "lower_is_better": self.lower_is_better,
            "pairs_asked": self.asked,
            "recommended": self.taken,
            "advice": self.advice,
            "doubts": self.doubts,
            "pairs": [_pair(self, place) for place in range(len(self.rows))],
        }

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
        """Compares a row's metric with that of the first one, in words."""
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


def _numbers(comparison: "Comparison", place: int) -> list[str]:
    """Returns the cells of a row after its names."""
    row, value = comparison.rows[place], comparison.values[place]
    fewer = comparison.fewer(row)
    return [
        f"{value:.4f}" if math.isfinite(value) else "nothing learnt",
        _nbytes(row.bytes_up),
        _nbytes(row.bytes_down),
        units.digits(fewer) if math.isfinite(fewer) else "–",
        f"{row.times.encode:.2f}",
        f"{row.times.decode:.2f}",
    ]


def _mark(comparison: "Comparison", place: int) -> str:
    """Returns the remark at the end of a row: ``take``, ``front`` or nothing."""
    if place == comparison.taken:
        return "take"
    return "front" if comparison.front[place] else ""


def _nbytes(nbytes: float) -> str:
    return f"{nbytes:,.0f}" if math.isfinite(nbytes) else "–"


def _pair(comparison: "Comparison", place: int) -> dict[str, Any]:
    row = comparison.rows[place]
    up, down = row.times
    return {
        "uplink": plain(row.pair.uplink),
        "downlink": plain(row.pair.downlink),
        "names": list(row.pair.names),
        "value": comparison.values[place],
        "standard_error": comparison.errors[place],
        "bytes_up": row.bytes_up,
        "bytes_down": row.bytes_down,
        "times_fewer": comparison.fewer(row),
        "milliseconds": {"up": up._asdict(), "down": down._asdict()},
        "on_front": comparison.front[place],
        "recommended": place == comparison.taken,
        "runs": [
            {
                "seed": trial.seed,
                "metrics": last_means(trial),
                "updates": trial.decided,
                "bytes_up": trial.bytes_up,
                "bytes_down": trial.bytes_down,
                "seconds": trial.seconds,
                "broken": trial.broken,
                "evaluations": trial.evaluations(),
            }
            for trial in row.trials
        ],
    }
