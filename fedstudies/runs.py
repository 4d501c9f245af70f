"""Runs of one app, each of which is kept in a folder when it ends, and found there."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fedrun.config import FederationConfig
from fedstudies.cache import Cache, identity, program, sources
from fedstudies.runner import Task, simulate_all
from fedstudies.trial import Trial

Key = tuple[int, int]
Ended = TypeVar("Ended")


class Cell(NamedTuple):
    """One of the things that are compared, with a seed."""

    number: int
    seed: int
    key: str
    """The digest of all that the result depends on."""
    settings: dict[str, Any]


@dataclass(kw_only=True)
class Runs:
    """The runs of a study, and their results so far."""

    app: str
    place: Path
    """The folder where the app is looked for."""
    folder: Path
    """The folder of the study."""
    keep: bool = False
    """Whether the folders of the runs are kept."""
    trials: dict[Key, Trial] = field(default_factory=dict)
    """The results by number and seed, like the keys of the cache."""
    keys: dict[Key, str] = field(default_factory=dict)

    @cached_property
    def cache(self) -> Cache:
        """The cache of finished runs."""
        return Cache(self.folder)

    @cached_property
    def _code(self) -> tuple[str, str]:
        return sources(self.app, self.place), program()

    def cell(self, number: int, config: FederationConfig) -> Cell:
        """Returns a run to do; its seed is that of the config."""
        key = self.keys[number, config.seed] = identity(config, *self._code)
        return Cell(number, config.seed, key, config.model_dump(mode="json"))

    def recall(self, cells: Sequence[Cell]) -> list[Cell]:
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
        self,
        function: Callable[[Task[Key]], Ended],
        cells: Sequence[Cell],
        scratch: Path,
        jobs: int,
    ) -> Generator[tuple[list[Cell], Ended]]:
        """Simulates, and keeps each result at once.

        Cells with the same config are simulated once, and yielded together.

        Args:
            function: :func:`simulate` or :func:`attempt` of the runner.
            cells: what to simulate.
            scratch: the folder that holds the runs until their results were read.
            jobs: how many processes simulate.
        """
        same: dict[str, list[Cell]] = {}
        for cell in cells:
            same.setdefault(cell.key, []).append(cell)

        def tasks(folder: Path) -> Iterator[Task[Key]]:
            for digest, (cell, *_) in same.items():
                kept = self.cache.run_folder(digest) if self.keep else None
                key = (cell.number, cell.seed)
                yield Task(key, self.app, self.place, cell.settings, folder, kept)

        with closing(simulate_all(function, tasks, scratch, jobs)) as results:
            for task, found in results:
                equal = same[self.keys[task.key]]
                if isinstance(found, Trial):
                    self.cache.put(equal[0].key, task.settings, found)
                    for cell in equal:
                        self.trials[cell.number, cell.seed] = found
                yield equal, found
