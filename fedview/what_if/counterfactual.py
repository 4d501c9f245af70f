"""Compares the model of a replay with the recorded one, in tables and sentences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedcore.arrays import norm
from fedcore.coordinator.events import Stepped
from fedcore.typing import JSON
from fedrun.evaluation import Evaluation
from fedrun.units import amount
from fedview.results.tables import Table, columns
from fedview.what_if.decisions import Decisions
from fedview.what_if.outcome import Outcome


class Versions:
    """The distance of the two models whenever the recorded run made a version."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def note(
        self,
        record: Stepped,
        replayed: int,
        distance: float,
        size: float,
        updates: tuple[int, int],
    ) -> None:
        """Adds a recorded version.

        Args:
            record: of the version.
            replayed: the version of the replay at that moment.
            distance: of the two models.
            size: the norm of the recorded one.
            updates: how many are in the recorded model and in the replayed one.
        """
        self._rows.append(
            {
                "version": record.version,
                "replayed_version": replayed,
                "distance": distance,
                "relative": distance / size if size else None,
                "updates": updates[0],
                "replayed_updates": updates[1],
            }
        )

    def table(self) -> Table:
        """Returns a row for each recorded version."""
        return columns(self._rows)


@dataclass(frozen=True)
class Counterfactual:
    """A run as it was recorded, and what its model would have been.

    Tables are dicts of columns, which a data frame takes as they are.
    """

    run: Path
    changes: tuple[str, ...]
    without: tuple[str, ...]
    recorded: Outcome
    replayed: Outcome
    decisions: Decisions
    versions: Table
    """Recorded versions: the distance of the models when each was made."""
    feedback: float | None = None
    """What the other clients would have sent otherwise, at most and as a share of the
    distance; None: not known (:mod:`fedview.what_if.feedback`)."""
    evaluations: Table = field(default_factory=dict)
    """Metrics of both models: ``metric``, ``recorded`` and ``replayed``."""
    samples: int = 0
    """How many samples they were evaluated on; 0: they were not."""

    @property
    def distance(self) -> float:
        """‖replayed - recorded‖, the Euclidean distance of the two models."""
        return norm(self.replayed.flat_D - self.recorded.flat_D)

    @property
    def relative(self) -> float:
        """The distance as a share of the norm of the recorded model."""
        size = norm(self.recorded.flat_D)
        return self.distance / size if size else 0.0

    @property
    def first(self) -> int | None:
        """The first recorded version that differs; None: none does."""
        rows = zip(
            self.versions.get("version", []),
            self.versions.get("distance", []),
            strict=True,
        )
        return next((version for version, distance in rows if distance), None)

    @property
    def layers(self) -> Table:
        """The distance in each tensor of the model, largest first."""
        spec = self.recorded.spec
        was = spec.unflatten(self.recorded.flat_D)
        then = spec.unflatten(self.replayed.flat_D)
        rows = []
        for name in was:
            size = norm(was[name].reshape(-1))
            distance = norm((then[name] - was[name]).reshape(-1))
            rows.append(
                {
                    "tensor": name,
                    "values": int(was[name].size),
                    "distance": distance,
                    "relative": distance / size if size else None,
                }
            )
        return columns(sorted(rows, key=lambda row: -row["distance"]))

    @property
    def clients(self) -> Table:
        """Each client's accepted updates, mean λ and share in both models."""
        before, after = self.recorded.coverage, self.replayed.coverage
        rows = []
        for cid, client in before.clients.items():
            weights = self.decisions.clients.get(cid)
            if weights is None:
                continue
            is_there = cid in after.clients
            rows.append(
                {
                    "client": client.name,
                    "updates": weights.recorded,
                    "replayed_updates": weights.replayed,
                    "weight": _mean(weights.recorded_sum, weights.recorded),
                    "replayed_weight": _mean(weights.replayed_sum, weights.replayed),
                    "share": before.share(cid),
                    "replayed_share": after.share(cid) if is_there else 0.0,
                }
            )
        return columns(sorted(rows, key=lambda row: -row["share"]))

    @property
    def labels(self) -> Table:
        """Each label's share in both models, if clients report their labels."""
        before, after = self.recorded.coverage.labels, self.replayed.coverage.labels
        return columns(
            [
                {
                    "label": label,
                    "share": found.share,
                    "replayed_share": after[label].share if label in after else 0.0,
                }
                for label, found in before.items()
            ]
        )

    def with_evaluations(self, found: Sequence[Evaluation]) -> "Counterfactual":
        """Returns the same with the metrics of both models, recorded first."""
        was, then = found
        rows = [
            {"metric": name, "recorded": value, "replayed": then.metrics.get(name)}
            for name, value in was.metrics.items()
        ]
        return replace(self, evaluations=columns(rows), samples=was.samples)

    @property
    def sentences(self) -> list[str]:
        """The comparison in words."""
        was, then = self.recorded, self.replayed
        lines = [
            f"{how}: {each.sentence}"
            for how, each in (("recorded", was), ("replayed", then))
        ]
        lines += [self._silence(name) for name in self.without if self._is_silent(name)]
        if self.distance:
            lines.append(
                f"the models are {self.distance:.4g} apart, {self.relative:.2%} of the "
                f"norm of the recorded one, {norm(was.flat_D):.4g}"
            )
        else:
            lines.append("the models are the same, bit for bit")
        total = len(self.versions.get("version", []))
        if self.first is not None:
            differ = sum(bool(each) for each in self.versions["distance"])
            lines.append(
                f"version {self.first} is the first that differs; {differ} of "
                f"{amount(total, 'version')} do"
            )
        return (
            lines
            + self._describe_decisions()
            + self._describe_metrics()
            + self._answers()
        )

    def _answers(self) -> list[str]:
        """Says how far the replay can be trusted."""
        if not self.distance:
            return []
        said = (
            "the updates are those that clients sent; on the other models they would "
            "have trained others"
        )
        if self.feedback == 0:
            return ["no update that is left would have been another one"]
        if self.feedback is None:
            return [said]
        if not math.isfinite(self.feedback):
            return [f"{said}, and how different ones the record does not tell"]
        return [f"{said}, by up to {self.feedback:.0%} of the models' distance"]

    def _is_silent(self, name: str) -> bool:
        clients = self.recorded.coverage.clients.values()
        return not any(each.updates for each in clients if each.name == name)

    def _silence(self, name: str) -> str:
        return f"{name} has no update in the model: none was accepted"

    def _describe_decisions(self) -> list[str]:
        decided, lines = self.decisions, []
        if decided.left_out:
            share = sum(self.recorded.share(name) for name in self.without)
            lines.append(
                f"{amount(decided.left_out, 'update')} of {decided.updates} left "
                f"out; their share of the recorded model is {share:.1%}"
            )
        if decided.weights:
            lines.append(
                f"{amount(decided.weights, 'update')} with another weight λ; the "
                f"largest change is {decided.largest:.3g}"
            )
        lines += [
            f"{amount(count, 'update')}: {was} in the run, {then} in the replay"
            for (was, then), count in decided.verdicts.most_common()
        ]
        return lines

    def _describe_metrics(self) -> list[str]:
        rows = zip(*self.evaluations.values(), strict=True) if self.samples else ()
        return [
            f"{name}: {was:.4f} recorded, {then:.4f} replayed"
            for name, was, then in rows
            if then is not None
        ]

    def to_json(self) -> JSON:
        """Returns the comparison as plain data."""
        return {
            "run": str(self.run),
            "without": list(self.without),
            "changes": list(self.changes),
            "recorded": _facts(self.recorded),
            "replayed": _facts(self.replayed),
            "distance": self.distance,
            "relative": self.relative,
            "first_version": self.first,
            "feedback": self.feedback,
            "updates": {
                "decided": self.decisions.updates,
                "left_out": self.decisions.left_out,
                "other_weight": self.decisions.weights,
                "largest_change_of_weight": self.decisions.largest,
                "other_verdict": sum(self.decisions.verdicts.values()),
            },
            "samples": self.samples,
            "evaluations": self.evaluations,
            "versions": self.versions,
            "layers": self.layers,
            "clients": self.clients,
            "labels": self.labels,
        }


def _facts(outcome: Outcome) -> JSON:
    return {
        "version": outcome.version,
        "updates": outcome.updates,
        "buffered": outcome.buffered,
        "norm": norm(outcome.flat_D),
    }


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None
