"""Replays a run once without each client, and ranks the clients by what they did.

The rounds stay as they were recorded. What the others would have trained without the
client is not in the journal; where that could change the order, there is no ranking
(:mod:`fedview.what_if.feedback`).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fedcore.arrays import norm
from fedcore.coordinator import Coordinator
from fedcore.coordinator.events import Opened, Record, Stepped
from fedcore.coordinator.settings import lower_is_better
from fedcore.errors import ConfigError
from fedcore.typing import JSON, Vector
from fedrun.config import FederationConfig
from fedrun.evaluation import Evaluation
from fedrun.files import save_model
from fedrun.journal import Configured, Journal
from fedrun.journal.replay import Replay
from fedrun.journal.restored import Restored, open_payload
from fedrun.units import amount
from fedview.results.coverage import Coverage
from fedview.results.tables import Table, columns
from fedview.what_if.feedback import (
    Estimate,
    Exposure,
    Sensitivity,
    Trust,
    distance,
    model_of,
    trust_in,
    unknown_because,
)
from fedview.what_if.progress import Progress, silent
from fedview.what_if.settings import newest_config, override_config, trainers

EvaluateFiles = Callable[[Sequence[Path]], Iterable[Evaluation]]
"""Returns the metrics of model files, in their order."""
MOST_VALUES = 50_000_000  # of the models that are replayed at a time


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
    feedback: float
    """The largest answers of the others, as a share of the distance."""
    metrics: dict[str, float]
    """Of the model without the client."""
    doubt: float = math.nan
    """By how much the effect may be another one; NaN: the client has none."""


@dataclass(frozen=True)
class LeaveOneOut:
    """The clients of a run, the most helpful one first where they are ranked.

    A client helps where the model is worse without it.
    """

    run: Path
    changes: tuple[str, ...]
    metric: str
    """By which the clients are ranked; empty: the models were not evaluated."""
    everybody: Evaluation | None
    """The metrics of the model of all clients."""
    clients: list[Left]
    trust: Trust = field(default_factory=Trust)

    @property
    def is_ranked(self) -> bool:
        """Whether the order can be trusted; if not, clients stand as they joined."""
        return not self.trust.why_not

    def effect(self, left: Left) -> float:
        """Returns how much better a client makes the model, in the ranking's metric.

        It is the loss without the client minus the loss with it; a metric that is
        better the higher it is counts the other way round.
        """
        if self.everybody is None:
            return left.relative
        with_it = self.everybody.metrics[self.metric]
        change = left.metrics[self.metric] - with_it
        return change if lower_is_better(self.metric) else 0.0 - change

    @property
    def table(self) -> Table:
        """A row for each client; effects and metrics only where they are ranked."""
        return columns([self._row(left) for left in self.clients])

    def _row(self, left: Left) -> dict[str, object]:
        row: dict[str, object] = {
            "client": left.client,
            "updates": left.updates,
            "share": left.share,
            "distance": left.distance,
            "relative": left.relative,
            "feedback": left.feedback if math.isfinite(left.feedback) else None,
        }
        if self.everybody is not None and self.is_ranked:
            doubt = left.doubt if left.updates else 0.0
            row |= {"effect": self.effect(left), "doubt": doubt, **left.metrics}
        return row

    @property
    def sentences(self) -> list[str]:
        """The findings, in words, with how far they can be trusted."""
        lines = [_ANSWERS, self._describe_trust()]
        absent = [left.client for left in self.clients if not left.updates]
        if absent:
            has = "has" if len(absent) == 1 else "have"
            lines.append(f"{', '.join(absent)} {has} no update in the model")
        if self.everybody is not None and self.trust.holds:
            return [*lines, *self._describe_effects(self.everybody)]
        if self.is_ranked:
            lines.append(
                "the clients are ranked by how far the model is from the recorded one "
                "without them; an app with test data would tell who helped (--app)"
            )
        return lines

    def _describe_trust(self) -> str:
        """Says how far the order can be trusted, or why there is none."""
        trust = self.trust
        if trust.why_not:
            return f"no ranking: {trust.why_not}; {_INSTEAD}"
        if not trust.feedback:
            return "no update of another client would have been different"
        said = f"their answers could be up to {trust.feedback:.0%} of a difference"
        if math.isnan(trust.correlation):
            return said
        return (
            f"{said}, so a correlation of {trust.correlation:.2f} with training again "
            "is expected"
        )

    def _describe_effects(self, everybody: Evaluation) -> list[str]:
        """Names the clients that helped or hurt beyond doubt."""
        lines = [
            f"{self.metric} of the model of all clients: "
            f"{everybody.metrics[self.metric]:.4f}"
        ]
        heard = sorted(
            (left for left in self.clients if left.updates),
            key=lambda left: _place(self.effect(left)),
        )
        helped = [left for left in heard if not self.effect(left) <= left.doubt]
        hurt = [left for left in heard if self.effect(left) < -left.doubt]
        most = " most" if self.is_ranked else ""
        shown = 1 if self.is_ranked else len(heard)
        lines += [
            f"{left.client} {did}{most}: {self._without(left)}"
            for did, some in (("helped", helped[:shown]), ("hurt", hurt[-shown:]))
            for left in some
        ]
        if hurt:
            # Alone, not all of them together.
            names = " or ".join(left.client for left in hurt)
            lines.append(f"the model is better without {names}")
        elif heard:
            lines.append("no client hurt beyond doubt")
        named = {left.client for left in [*helped, *hurt]}
        if others := [left.client for left in heard if left.client not in named]:
            each = "each be" if len(others) > 1 else "be"
            lines.append(f"the effect of {', '.join(others)} may {each} none")
        return lines

    def _without(self, left: Left) -> str:
        doubt = f" ± {left.doubt:.2g}" if left.doubt else ""
        return f"the {self.metric} without it is {left.metrics[self.metric]:.4f}{doubt}"

    def to_json(self) -> JSON:
        """Returns the ranking as plain data."""
        return {
            "run": str(self.run),
            "changes": list(self.changes),
            "metric": self.metric,
            "recorded": self.everybody and self.everybody.to_json(),
            "ranked": self.is_ranked,
            "feedback": self.trust.feedback,
            "correlation": self.trust.correlation,
            "sentences": self.sentences,
            "clients": self.table,
        }


_ANSWERS = (
    "the other clients' updates are those that they sent; without the client they "
    "would have trained on other models"
)
_INSTEAD = (
    "fedsim influence --leave-one-out trains again, in a simulation or where the data "
    "are at hand"
)


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
        config = override_config(journal, changes)
        names = trainers(journal)
        if len(names) < 2:
            raise ConfigError(
                f"{run}: has {amount(len(names), 'client')}; leaving one out needs two"
            )
        (spec, initial_D), rest = journal.initial(), journal.rest()
        paths: list[Path] = []
        with TemporaryDirectory() as scratch:

            def save(model_D: Vector) -> None:
                paths.append(Path(scratch) / f"{len(paths)}.safetensors")
                save_model(paths[-1], spec, model_D, rest=rest)

            save(initial_D)  # measured first: a wrong app or metric is told at once
            known = None if evaluate is None else next(iter(evaluate(paths)))
            chosen = _choose_metric(known, metric)
            everybody, found = None, []
            for everybody_D, left, without_D in _replay_without(
                journal, config, names, progress
            ):
                if len(paths) == 1:
                    save(everybody_D)
                save(without_D)
                found.append(left)
            if evaluate is not None:
                everybody, *others = evaluate(paths[1:])
                pairs = zip(found, others, strict=True)
                found = [left._replace(metrics=each.metrics) for left, each in pairs]
        settings = (config or newest_config(journal)).algorithm
    ranked = LeaveOneOut(run, tuple(changes), chosen, everybody, found)
    return _rank(ranked, unknown_because(settings))


def _rank(found: LeaveOneOut, why_not: str) -> LeaveOneOut:
    """Ranks the clients, if their order can be trusted."""
    heard = [left for left in found.clients if left.updates]
    estimates = [
        Estimate(found.effect(left), left.distance, left.feedback) for left in heard
    ]
    trust = trust_in(estimates, why_not)
    doubts = dict(zip([left.client for left in heard], trust.doubts, strict=True))
    clients = [
        left._replace(doubt=doubts.get(left.client, 0.0)) for left in found.clients
    ]
    if not trust.why_not:
        clients.sort(key=lambda left: _place(found.effect(left)))
    return replace(found, clients=clients, trust=trust)


def _place(effect: float) -> float:
    """Orders by falling effect; a model that is no number without a client is worst."""
    return -math.inf if math.isnan(effect) else -effect


class _Without:
    """A run without one client, beside the run with all."""

    def __init__(
        self, journal: Journal, name: str, config: FederationConfig | None
    ) -> None:
        self.name, self.exposure = name, Exposure()
        self.run = Restored(journal, (name,), config)

    def take(
        self, record: Record, opened: Opened | None, everybody: Coordinator
    ) -> None:
        """Applies a record that was applied to the run with all clients."""
        if self.run.take(record, opened) or isinstance(record, Stepped):
            self.exposure.observe(record, everybody, self.run.coordinator)

    def compare(
        self, everybody: Coordinator, coverage: Coverage, sensitivity: float
    ) -> Left:
        """Compares the last models."""
        self.exposure.close(self.run.coordinator)
        _finish(self.run.coordinator)
        mine = [c for c in coverage.clients.values() if c.name == self.name]
        apart = distance(everybody, self.run.coordinator)
        size = norm(model_of(everybody))
        return Left(
            self.name,
            sum(each.updates for each in mine),
            sum(coverage.share(each.cid) for each in mine),
            apart,
            apart / size if size else 0.0,
            self.exposure.feedback(sensitivity, apart),
            {},
        )


def _finish(run: Coordinator) -> None:
    """Lets the updates that wait in the buffer count."""
    run.flush(run.state.at)


def _replay_without(
    journal: Journal,
    config: FederationConfig | None,
    names: Sequence[str],
    progress: Progress,
) -> Iterator[tuple[Vector, Left, Vector]]:
    """Replays a run without each client, as many at a time as fit into memory.

    Yields:
        The model of all clients (D,), and for each client what it did and the model
        without it (D,).
    """
    at_a_time = max(1, MOST_VALUES // journal.initial()[0].dim)
    groups = [names[i : i + at_a_time] for i in range(0, len(names), at_a_time)]
    total, done = len(groups) * journal.store.last, 0
    for group in groups:
        run = (
            Replay(journal, config, whole_records=False)
            if config
            else Restored(journal)
        )
        everybody = run.coordinator
        lacking = [_Without(journal, name, config) for name in group]
        coverage = Coverage((config or newest_config(journal)).algorithm.count_update)
        sensitivity = Sensitivity(everybody)
        for _, record in journal.entries():
            opened = open_payload(record, everybody.algorithm)
            if isinstance(record, Configured):
                for one in lacking:
                    one.run.take(record)
            for each in run.take(record, opened):
                coverage.observe(each)
                sensitivity.observe(each, opened and opened.payload)
                for one in lacking:
                    one.take(each, opened, everybody)
            done += 1
            progress(done, total)
        _finish(everybody)
        for one in lacking:
            left = one.compare(everybody, coverage, sensitivity.value)
            yield model_of(everybody), left, model_of(one.run.coordinator)


def _choose_metric(everybody: Evaluation | None, metric: str | None) -> str:
    """Returns the metric to rank by.

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
