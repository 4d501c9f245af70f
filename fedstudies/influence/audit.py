"""Audits a recorded run: estimates influence, and retrains without each client."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedcore.errors import ConfigError, LatecomerError
from fedcore.params import LARGEST
from fedcore.typing import Array, Vector
from fedrun.app import load_app
from fedstudies.influence.estimate import Settings, estimate
from fedstudies.influence.outcome import (
    Audit,
    Influence,
    Row,
    help_of,
    main_of,
    rank,
)
from fedstudies.influence.repetition import Repetition
from fedstudies.influence.schedule import read_schedule
from fedstudies.statistics import estimate as estimate_of

FEWEST = 2  # clients


class Retraining(NamedTuple):
    """A run to repeat without a client, as plain data for another process."""

    app: str
    place: Path
    """The folder where the app is looked for."""
    run: Path
    versions: int | None
    args: tuple[tuple[str, str], ...]
    client: str


def retrain(task: Retraining) -> Vector:
    """Returns the last model of a run without one client."""
    return last_of(_repetition(*task[:-1]), task.client)


@lru_cache(maxsize=1)
def _repetition(
    app: str,
    place: Path,
    run: Path,
    versions: int | None,
    args: tuple[tuple[str, str], ...],
) -> Repetition:
    """A process repeats the same run for several clients."""
    return Repetition(load_app(app, place), read_schedule(run, dict(args), versions))


def last_of(repetition: Repetition, *without: str) -> Vector:
    """Returns the last model of a run without these clients."""
    *_, last_D = repetition.without(*without)
    return last_D


@dataclass
class Auditor:
    """Collects what an audit says of a run."""

    repetition: Repetition
    watched: Sequence[str]
    settings: Settings
    run: str
    """Which run, in words."""
    w_D: Vector = field(init=False)
    eps_CD: Array = field(init=False)
    true: dict[str, Vector] = field(default_factory=dict)
    """Last models without a client, by its name."""

    def estimate(self) -> Generator[int]:
        """Estimates the influence; yields the number of each version that is done."""
        found = estimate(self.repetition, self.watched, self.settings)
        for version, (self.w_D, state) in enumerate(found, start=1):
            self.eps_CD = state.eps_CD
            yield version

    def to_check(self, count: int) -> list[str]:
        """Returns the clients whose estimates matter most, for a check.

        They are those that the estimate takes for the most helpful and the most hurtful
        one, and then those whose models differ most.

        Args:
            count: how many.
        """
        values = self.repetition.evaluate(self.w_D)
        metric, schedule = main_of(values), self.repetition.schedule
        sizes = dict(
            zip(self.watched, np.linalg.norm(self.eps_CD, axis=1), strict=True)
        )
        there = [name for name in self.watched if schedule.count_updates(name)]
        found = {
            name: help_of(metric, self._influence(eps_D, values, []))
            for name, eps_D in zip(self.watched, self.eps_CD, strict=True)
            if name in there
        }
        order = sorted(there, key=lambda name: -found[name])
        largest = sorted(there, key=lambda name: -sizes[name])
        return list(dict.fromkeys([*order[:1], *order[-1:], *largest]))[:count]

    def retrain(self, names: Sequence[str]) -> Generator[str]:
        """Retrains without each of these clients, in this process; yields its name."""
        for name in names:
            self.true[name] = last_of(self.repetition, name)
            yield name

    def outcome(self) -> Audit:
        """Measures all models on the test data."""
        repetition, schedule = self.repetition, self.repetition.schedule
        values = repetition.evaluate(self.w_D)
        parts = repetition.evaluate_parts(self.w_D)
        rows = []
        for name, eps_D in zip(self.watched, self.eps_CD, strict=True):
            true, error = None, None
            if name in self.true:
                gap_D = self.true[name].astype(np.float64) - self.w_D
                true = self._influence(gap_D, values, parts)
                size = float(np.linalg.norm(gap_D))
                error = float(np.linalg.norm(eps_D - gap_D)) / size if size else None
            row = Row(
                name,
                len(repetition.samples(name)),
                schedule.count_updates(name),
                self._influence(eps_D, values, parts),
                true,
                error,
            )
            rows.append(row)
        return Audit(
            run=self.run,
            versions=len(schedule.rounds),
            settings=self.settings,
            values=values,
            rows=rank(main_of(values), rows),
            steepest=repetition.steepest,
        )

    def _influence(
        self,
        gap_D: Array,
        values: Mapping[str, float],
        parts: Sequence[Mapping[str, float]],
    ) -> Influence:
        """Measures the model that differs so, on all test data and on its parts."""
        size = float(np.linalg.norm(gap_D))
        if not size:  # nothing is different, to the last digit
            return Influence(dict.fromkeys(values, 0.0), 0.0)
        found = {}
        if size < LARGEST:
            found = self.repetition.evaluate(self.w_D + gap_D)
        if not found or not all(map(math.isfinite, found.values())):
            raise LatecomerError(
                f"influence: the estimated difference has grown to {size:.3g}, and "
                "the model there has no finite metrics; --truncate bounds it, and "
                "fewer --versions make it smaller"
            )
        changes = {n: found[n] - values[n] for n in values}
        others = self.repetition.evaluate_parts(self.w_D + gap_D) if parts else []
        pairs = list(zip(others, parts, strict=True))
        chance = {
            name: estimate_of([after[name] - before[name] for after, before in pairs])
            for name in (values if pairs else ())
        }
        return Influence(
            changes, size, {name: each.half or 0.0 for name, each in chance.items()}
        )


def choose_clients(clients: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Returns the clients to audit, in the order of the run.

    Args:
        clients: all that the run has.
        wanted: those that were asked for; none: all.

    Raises:
        ConfigError: there is no such client, or only one in the run.
    """
    if len(clients) < FEWEST:
        raise ConfigError(
            "influence: the run has one client; without it there is no model to "
            "compare with, so the audit needs two or more"
        )
    unknown = [name for name in wanted if name not in clients]
    if unknown:
        raise ConfigError(
            f"--clients {','.join(unknown)}: no such client; there are "
            f"{', '.join(clients)}"
        )
    return [name for name in clients if not wanted or name in wanted]
