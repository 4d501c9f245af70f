"""The result of one run, and of runs that differ in their seeds alone.

Bytes are those of payloads: of the updates that got a verdict, and of the patches that
clients received with their tasks. Those that the evaluator receives are not counted,
since it only serves the comparison.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from fedcore.coordinator.events import Decided, Leased
from fedcore.coordinator.settings import lower_is_better
from fedcore.errors import WorkloadError
from fedcore.protocol import Verdict
from fedrun.evaluation import main_metric
from fedrun.fields import wrong_field
from fedstudies.statistics import Estimate, estimate
from fedview.report.byte_counts import ByteCounts, times_of_versions
from fedview.report.downsample import Floats, floats
from fedview.results import NOT_METRICS, Results, Table, is_number


class Place(NamedTuple):
    """The costs of a run up to the moment when a version was published."""

    seconds: float
    version: int
    updates: int
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run."""

    seed: int
    versions: int
    updates: int
    """Accepted updates."""
    bytes_up: int
    bytes_down: int
    seconds: float
    """The length of the run, in virtual time for a simulation."""
    places: list[Place]
    """The costs at each evaluation, in the order of versions."""
    metrics: dict[str, list[float | None]]
    """The values of each evaluation."""
    broken: bool = False
    """Whether the run stopped making versions, or its updates were not finite."""
    decided: int = 0
    """Updates that got a verdict."""

    @property
    def nbytes(self) -> int:
        """Bytes up and down together."""
        return self.bytes_up + self.bytes_down

    def final(self, metric: str) -> float:
        """The last value; NaN where the run broke down or measured nothing."""
        values = self.metrics.get(metric, [])
        return _number(values[-1]) if values and not self.broken else math.nan

    def best(self, metric: str) -> float:
        """The best value; NaN where nothing was measured."""
        known = [v for v in map(_number, self.metrics.get(metric, [])) if v == v]
        pick = min if lower_is_better(metric) else max
        return pick(known) if known else math.nan

    def reach(self, metric: str, target: float) -> Place | None:
        """The costs of reaching a target.

        Args:
            metric: the metric to look at.
            target: the value that must be reached.

        Returns:
            The first place where it was reached, or None.
        """
        sign = -1 if lower_is_better(metric) else 1
        for place, value in zip(self.places, self.metrics.get(metric, []), strict=True):
            if is_number(value) and sign * (_number(value) - target) >= 0:
                return place
        return None

    def curve(self, metric: str, axis: str) -> tuple[Floats, Floats]:
        """The finite values, over a field of :class:`Place`."""
        values = floats(self.metrics.get(metric, []))
        over = floats([getattr(place, axis) for place in self.places])[: len(values)]
        known = np.isfinite(values)
        return over[known], values[known]

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each evaluation: its place, and the metrics."""
        for number, place in enumerate(self.places):
            values = {name: column[number] for name, column in self.metrics.items()}
            yield {**place._asdict(), **values}

    def evaluations(self) -> Table:
        """The evaluations as columns: version, seconds, and the metrics."""
        return {
            "version": [place.version for place in self.places],
            "seconds": [place.seconds for place in self.places],
            **self.metrics,
        }

    def as_json(self) -> dict[str, Any]:
        """The trial as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Trial":
        """The trial that :meth:`as_json` wrote.

        Raises:
            LookupError, TypeError, ValueError: it is none.
        """
        places = [Place(*place) for place in raw["places"]]
        trial = cls(**{**raw, "places": places})
        if wrong := wrong_field(trial):
            raise ValueError(wrong)
        if any(len(column) != len(places) for column in trial.metrics.values()):
            raise ValueError("its evaluations have different numbers of metrics")
        return trial


def read_trial(results: Results, *, broken: bool = False) -> Trial:
    """Reads the result of a run.

    Args:
        results: the folder of a simulation or of a deployment.
        broken: whether the run broke down.
    """
    table, decided = _evaluations(results), results.of(Decided)
    down = (r.nbytes for r in results.of(Leased) if r.cid not in results.evaluators)
    versions = table.get("version", [])
    published = times_of_versions(results, versions)
    measured = floats(table.get("seconds", []))
    seconds = np.where(np.isfinite(published), published, measured)
    counts = _counts(results, seconds)
    names = [name for name in table if name not in NOT_METRICS]
    return Trial(
        seed=results.configured.seed,
        versions=results.summary["versions"],
        updates=results.summary["accepted"],
        bytes_up=sum(record.nbytes for record in decided),
        bytes_down=sum(down),
        seconds=results.seconds,
        places=[
            Place(float(at), int(version), int(updates), int(nbytes))
            for at, version, updates, nbytes in zip(
                seconds, versions, *counts, strict=True
            )
        ],
        metrics={
            name: [value if is_number(value) else None for value in table[name]]
            for name in names
        },
        broken=broken,
        decided=len(decided),
    )


def _evaluations(results: Results) -> Table:
    """The evaluator's evaluations, or the clients' where there is no evaluator."""
    central = results.central
    return central if central.get("version") else results.federated


def _counts(results: Results, seconds: Floats) -> tuple[Floats, Floats]:
    """Accepted updates, and bytes of clients, up to each of these times."""
    decided = results.of(Decided)
    accepted = [r for r in decided if r.verdict is Verdict.ACCEPTED]
    down = [r for r in results.of(Leased) if r.cid not in results.evaluators]

    def until(records: Sequence[Any], each: Sequence[int]) -> Floats:
        at = floats([record.at - results.started for record in records])
        return ByteCounts(at, np.array(each, np.int64), 0).up_to(seconds)

    nbytes = until(decided, [r.nbytes for r in decided])
    return (
        until(accepted, [1] * len(accepted)),
        nbytes + until(down, [r.nbytes for r in down]),
    )


@dataclass(frozen=True)
class Group:
    """The runs of one config, each with a seed of its own."""

    name: str
    trials: Mapping[int, Trial]
    """The runs by their seeds."""

    def finals(self, metric: str) -> dict[int, float]:
        """The metric at the end, by seed; NaN where the run broke down."""
        return {seed: trial.final(metric) for seed, trial in self.trials.items()}

    def final(self, metric: str) -> Estimate:
        """The metric at the end, over the seeds."""
        return estimate(list(self.finals(metric).values()))

    def best(self, metric: str) -> Estimate:
        """The metric where it was best, over the seeds."""
        return estimate([trial.best(metric) for trial in self.trials.values()])


def metric_of(trials: Sequence[Trial], wanted: str | None = None) -> str:
    """The metric to compare runs by.

    Args:
        trials: the runs.
        wanted: its name; without it, accuracy, or the first metric that was measured.

    Raises:
        WorkloadError: the metric was not measured, or nothing was.
    """
    measured = list(dict.fromkeys(name for t in trials for name in t.metrics))
    return choose_metric(measured, wanted)


def choose_metric(measured: Sequence[str], wanted: str | None) -> str:
    """Chooses the metric to compare by among those that are measured.

    Args:
        measured: their names.
        wanted: one of them; None: accuracy, or the first one.

    Raises:
        WorkloadError: it is not measured, or nothing is.
    """
    if wanted is not None and wanted not in measured:
        have = f"measured: {', '.join(measured)}" if measured else "nothing was"
        raise WorkloadError(f"--metric {wanted}: was not measured; {have}")
    name = wanted or main_metric(measured)
    if name is None:
        raise WorkloadError("nothing was measured to compare the runs by")
    return name


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
