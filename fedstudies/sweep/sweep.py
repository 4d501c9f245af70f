"""All runs of a sweep, which may be stopped at any point and continued later."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.errors import ConfigError
from fedrun.config import FederationConfig
from fedstudies.cache import Cache, identity, program, sources
from fedstudies.runner import Failure, Task, attempt, simulate_all
from fedstudies.sweep.points import Point, short_names
from fedstudies.trial import Trial


class Cell(NamedTuple):
    """A point with a seed."""

    number: int
    seed: int
    key: str
    settings: dict[str, Any]


@dataclass(kw_only=True)
class Sweep:
    """The points of one federation, and the results of their runs so far."""

    load: Callable[[Mapping[str, Any]], FederationConfig]
    """Makes the config of a point from its values by field."""
    app: str
    place: Path
    """The folder where the app is looked for."""
    points: list[Point]
    seeds: range
    folder: Path
    keep: bool = False
    """Whether the folders of the runs are kept."""
    trials: dict[tuple[int, int], Trial] = field(default_factory=dict)
    """The results by point and seed, like the failures and the keys of the cache."""
    failures: dict[tuple[int, int], Failure] = field(default_factory=dict)
    keys: dict[tuple[int, int], str] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    """Why a point cannot be simulated."""

    @cached_property
    def fields(self) -> dict[str, str]:
        """The fields that the points set, and their short names."""
        return short_names([name for name, _ in self.points[0].settings])

    @cached_property
    def cache(self) -> Cache:
        """The cache of finished runs."""
        return Cache(self.folder)

    @property
    def size(self) -> int:
        """How many runs the sweep has."""
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
        """All runs of the sweep; a point whose config is wrong is refused.

        Raises:
            ConfigError: all points are refused.
        """
        found, first = [], None
        code, ours = sources(self.app, self.place), program()
        for number, point in enumerate(self.points):
            try:
                config = self.load(point.changes)
            except ConfigError as error:
                first = first or error
                self.refused[number] = str(error)
                continue
            for seed in self.seeds:
                seeded = config.model_copy(update={"seed": seed})
                key = identity(seeded, code, ours)
                self.keys[number, seed] = key
                found.append(Cell(number, seed, key, seeded.model_dump(mode="json")))
        if first is not None and not found:
            raise first
        return found

    def recall(self, cells: list[Cell]) -> list[Cell]:
        """Takes finished runs from the cache; returns the others."""
        left = []
        for cell in cells:
            trial = self.cache.get(cell.key, whole=self.keep)
            if trial is None:
                left.append(cell)
            else:
                self.trials[cell.number, cell.seed] = trial
        return left

    def simulate(
        self, cells: list[Cell], jobs: int
    ) -> Generator[tuple[list[Cell], Trial | Failure]]:
        """Simulates these runs, and keeps each result at once.

        Cells with the same config are simulated once, and yielded together.

        Args:
            cells: cells of this sweep.
            jobs: how many processes simulate.
        """
        same: dict[str, list[Cell]] = {}
        for cell in cells:
            same.setdefault(cell.key, []).append(cell)

        def tasks(scratch: Path) -> Iterator[Task[str]]:
            for key, (cell, *_) in same.items():
                kept = self.cache.run_folder(key) if self.keep else None
                settings = cell.settings
                yield Task(key, self.app, self.place, settings, scratch, kept)

        results = simulate_all(attempt, tasks, self.folder, jobs)
        with closing(results):
            for task, found in results:
                if isinstance(found, Trial):
                    self.cache.put(task.key, task.settings, found)
                for cell in same[task.key]:
                    if isinstance(found, Trial):
                        self.trials[cell.number, cell.seed] = found
                    else:
                        self.failures[cell.number, cell.seed] = found
                yield same[task.key], found
