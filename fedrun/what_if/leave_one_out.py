"""Replays a run once without each client, and ranks the clients by what they did."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fedcore.arrays import norm
from fedcore.coordinator.settings import lower_is_better
from fedcore.errors import ConfigError
from fedcore.typing import JSON, Vector
from fedrun.config import FederationConfig
from fedrun.evaluation import Evaluation
from fedrun.files import save_model
from fedrun.journal import Journal
from fedrun.journal.replay import Replay
from fedrun.results.coverage import Coverage
from fedrun.results.tables import Table, columns
from fedrun.units import counted
from fedrun.what_if.progress import Progress, silent
from fedrun.what_if.settings import changed_config, newest_config, trainers

EvaluateFiles = Callable[[Sequence[Path]], Iterable[Evaluation]]
"""Returns the metrics of model files, in their order."""


class Left(NamedTuple):
    """The model without one client, compared with the model of all."""

    client: str
    updates: int
    """Accepted updates of the client, in the model of all."""
    share: float
    """The share that they have in that model."""
    distance: float
    """Of the two models."""
    relative: float
    """The distance as a share of the norm of the model of all."""
    metrics: dict[str, float]
    """Of the model without the client."""


@dataclass(frozen=True)
class LeaveOneOut:
    """The clients of a run, the most helpful one first.

    A client helps where the model is worse without it.
    """

    run: Path
    changes: tuple[str, ...]
    metric: str
    """By which the clients are ranked; empty: the models were not evaluated."""
    everybody: Evaluation | None
    """The metrics of the model of all clients."""
    clients: list[Left]

    def effect(self, left: Left) -> float:
        """How much better the model is thanks to a client, in the ranking's metric.

        It is the loss without the client minus the loss with it; a metric that is
        better the higher it is counts the other way round.
        """
        if self.everybody is None:
            return left.relative
        with_it = self.everybody.metrics[self.metric]
        change = left.metrics[self.metric] - with_it
        return change if lower_is_better(self.metric) else -change

    @property
    def table(self) -> Table:
        """A row for each client, the most helpful one first."""
        ranked = "effect" if self.everybody else ""
        return columns(
            [
                {
                    "client": left.client,
                    "updates": left.updates,
                    "share": left.share,
                    "distance": left.distance,
                    "relative": left.relative,
                    **({ranked: self.effect(left)} if ranked else {}),
                    **left.metrics,
                }
                for left in self.clients
            ]
        )

    @property
    def sentences(self) -> list[str]:
        """What came out, in words."""
        if self.everybody is None:
            return [
                "the clients are ranked by how far the model is from the recorded one "
                "without them; an app with test data would tell who helped (--app)"
            ]
        name, value = self.metric, self.everybody.metrics[self.metric]
        lines = [f"{name} of the model of all clients: {value:.4f}"]
        silent = [left.client for left in self.clients if not left.updates]
        if silent:
            has = "has" if len(silent) == 1 else "have"
            lines.append(f"{', '.join(silent)} {has} no update in the model")
        heard = [left for left in self.clients if left.updates]
        if not heard:
            return lines
        first, last = heard[0], heard[-1]
        if not self.effect(first) <= 0:  # a model that is no number is worst
            lines.append(f"{first.client} helped most: {self._without(first)}")
        # Alone, not all of them together.
        harmful = [left.client for left in heard if self.effect(left) < 0]
        if harmful:
            lines.append(f"{last.client} hurt most: {self._without(last)}")
            lines.append(f"the model is better without {' or '.join(harmful)}")
        elif last is not first:
            without = self._without(last)
            lines.append(f"{last.client} helped least: {without}; no client hurt")
        return lines

    def _without(self, left: Left) -> str:
        return f"the {self.metric} without it is {left.metrics[self.metric]:.4f}"

    def to_json(self) -> JSON:
        """The ranking as plain data."""
        return {
            "run": str(self.run),
            "changes": list(self.changes),
            "metric": self.metric,
            "recorded": self.everybody and self.everybody.to_json(),
            "clients": self.table,
        }


def rank(
    run: Path,
    changes: Sequence[str] = (),
    evaluate: EvaluateFiles | None = None,
    metric: str | None = None,
    progress: Progress = silent,
) -> LeaveOneOut:
    """Replays a run without each of its clients in turn.

    Args:
        run: the folder of the run.
        changes: of its newest config, each as ``field=value``.
        evaluate: evaluates model files; None: the models are only measured.
        metric: by which to rank; None: the loss, or the first metric there is.
        progress: is told how far all the replays are.

    Raises:
        ConfigError: a setting or the metric does not exist, or the run has fewer than
            two clients with updates.
        JournalError: the journal is damaged, or does not hold all updates.
    """
    with closing(Journal.open(run, read_only=True)) as journal:
        journal.require_sound()
        config = changed_config(journal, changes)
        names = trainers(journal)
        if len(names) < 2:
            raise ConfigError(
                f"{run}: has {counted(len(names), 'client')}; leaving one out needs two"
            )
        spec, rest = journal.initial()[0], journal.rest()
        steps = _Steps(progress, (len(names) + 1) * journal.store.last)
        with TemporaryDirectory() as scratch:
            paths = [Path(scratch) / f"{n}.safetensors" for n in range(len(names) + 1)]
            everybody_D, coverage = _replayed(journal, config, (), steps)
            save_model(paths[0], spec, everybody_D, rest=rest)
            everybody = None  # measured first: a wrong app or metric is told at once
            if evaluate is not None:
                everybody = next(iter(evaluate(paths[:1])))
            chosen = _chosen(everybody, metric)
            found = []
            for name, path in zip(names, paths[1:], strict=True):
                without_D, _ = _replayed(journal, config, (name,), steps)
                save_model(path, spec, without_D, rest=rest)
                found.append(_left(name, everybody_D, without_D, coverage))
            if evaluate is not None:
                pairs = zip(found, evaluate(paths[1:]), strict=True)
                found = [left._replace(metrics=each.metrics) for left, each in pairs]
    ranked = LeaveOneOut(run, tuple(changes), chosen, everybody, found)
    found.sort(key=lambda left: _place(ranked.effect(left)))
    return ranked


def _place(effect: float) -> float:
    """Orders by falling effect; a model that is no number without a client is worst."""
    return -math.inf if math.isnan(effect) else -effect


class _Steps:
    """Counts the records of all replays."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def step(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)


def _replayed(
    journal: Journal,
    config: FederationConfig | None,
    without: tuple[str, ...],
    steps: _Steps,
) -> tuple[Vector, Coverage]:
    """Returns the last model of a replay, (D,), and the shares in it."""
    replay = Replay(journal, config, without, whole_records=False)
    coverage = Coverage((config or newest_config(journal)).algorithm.counted)
    for _, record in journal.entries():
        for each in replay.take(record):
            coverage.observe(each)
        steps.step()
    coordinator = replay.coordinator
    coordinator.flush(coordinator.state.at)
    return coordinator.state.exact_D[: coordinator.algorithm.model.dim], coverage


def _left(
    name: str, everybody_D: Vector, without_D: Vector, coverage: Coverage
) -> Left:
    mine = [c for c in coverage.clients.values() if c.name == name]
    distance, size = norm(without_D - everybody_D), norm(everybody_D)
    return Left(
        name,
        sum(each.updates for each in mine),
        sum(coverage.share(each.cid) for each in mine),
        distance,
        distance / size if size else 0.0,
        {},
    )


def _chosen(everybody: Evaluation | None, metric: str | None) -> str:
    """The metric to rank by.

    Raises:
        ConfigError: there is no such metric.
    """
    if everybody is None:
        if metric is not None:
            raise ConfigError(f"--metric {metric}: needs an app with test data (--app)")
        return ""
    known = list(everybody.metrics)
    if metric is None:
        return "loss" if "loss" in known else known[0]
    if metric not in known:
        raise ConfigError(f"--metric {metric}: unknown; there are {', '.join(known)}")
    return metric
