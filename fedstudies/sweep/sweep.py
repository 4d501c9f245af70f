"""All runs of a sweep, which may be stopped at any point and continued later."""

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fedcore.errors import ConfigError
from fedrun.config import FederationConfig
from fedstudies.runner import Failure, attempt
from fedstudies.runs import Cell, Runs
from fedstudies.sweep.points import Point, short_names
from fedstudies.trial import Trial


@dataclass(kw_only=True)
class Sweep(Runs):
    """The points of one federation, and the results of their runs so far."""

    load: Callable[[Mapping[str, Any]], FederationConfig]
    """Makes the config of a point from its values by field."""
    points: list[Point]
    ranges: Collection[str]
    """The fields whose values are drawn from a range."""
    seeds: range
    failures: dict[tuple[int, int], Failure] = field(default_factory=dict)
    """The errors by point and seed."""
    refused: dict[int, str] = field(default_factory=dict)
    """Why a point cannot be simulated."""

    @cached_property
    def fields(self) -> dict[str, str]:
        """The fields that the points set, and their short names."""
        return short_names([name for name, _ in self.points[0].settings])

    @property
    def size(self) -> int:
        """The number of runs of the sweep."""
        return (len(self.points) - len(self.refused)) * len(self.seeds)

    @property
    def failures_by_name(self) -> dict[str, Failure]:
        """The failures by the names of their runs."""
        return {
            f"{self.name(number)}, seed {seed}": failure
            for (number, seed), failure in sorted(self.failures.items())
        }

    def name(self, number: int) -> str:
        """The short name of a point."""
        return self.points[number].name(self.fields) or "as configured"

    def cells(self) -> list[Cell]:
        """Returns all runs; a point whose values do not fit together is left out.

        Raises:
            ConfigError: a value is wrong with each of the others, or all points are.
        """
        found, first = [], None
        for number, point in enumerate(self.points):
            try:
                config = self.load(point.changes)
            except ConfigError as error:
                first = first or error
                self.refused[number] = str(error)
                continue
            for seed in self.seeds:
                seeded = config.model_copy(update={"seed": seed})
                found.append(self.cell(number, seeded))
        self._require_values()
        if first is not None and not found:
            raise first
        return found

    def _require_values(self) -> None:
        """Checks that each value is accepted in a point, or by the config without it.

        Raises:
            ConfigError: a value is not.
        """
        usable = {
            setting
            for number, point in enumerate(self.points)
            if number not in self.refused
            for setting in point.texts.items()
        }
        for number in self.refused:
            point = self.points[number]
            for name, text in point.texts.items():
                if (name, text) in usable:
                    continue
                try:
                    self.load({name: point.changes[name]})
                except ConfigError as error:
                    option = "--range" if name in self.ranges else "--grid"
                    raise ConfigError(f"{option} {name}: {error}") from error

    def attempt(
        self, cells: list[Cell], jobs: int
    ) -> Generator[tuple[list[Cell], Trial | Failure]]:
        """Simulates these runs; one that ends with an error does not end the others.

        Args:
            cells: cells of this sweep.
            jobs: how many processes simulate.
        """
        with closing(self.simulate(attempt, cells, self.folder, jobs)) as results:
            for equal, found in results:
                if isinstance(found, Failure):
                    for cell in equal:
                        self.failures[cell.number, cell.seed] = found
                yield equal, found
