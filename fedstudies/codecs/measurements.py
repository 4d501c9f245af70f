"""All measurements of a comparison of codecs, which may be stopped at any point."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.workload import Workload
from fedrun.config import FederationConfig, parse_config
from fedstudies.cache import Cache, identity, program, sources
from fedstudies.codecs.comparison import Comparison, Row
from fedstudies.codecs.measure import settings_of
from fedstudies.codecs.pairs import Pair
from fedstudies.codecs.timing import (
    CodecTimes,
    PairTimes,
    pair_times,
)
from fedstudies.first_updates import first_updates
from fedstudies.runner import Task, require_measured, simulate, simulate_all
from fedstudies.trial import Trial


class Cell(NamedTuple):
    """A pair with a seed."""

    number: int
    seed: int
    key: str
    settings: dict[str, Any]


@dataclass(kw_only=True)
class Measurements:
    """The pairs of one federation, and their measurements so far."""

    config: FederationConfig
    app: str
    place: Path
    """The folder where the app is looked for."""
    workload: Workload
    pairs: list[Pair]
    """The uncompressed one first."""
    versions: int
    seeds: int
    tolerance: float
    cache: Cache
    """The finished runs."""
    dim: int = 0
    times: list[PairTimes] = field(default_factory=list)
    trials: dict[tuple[int, int], Trial] = field(default_factory=dict)
    """The results by pair and seed."""

    def check(self) -> None:
        """Checks the settings before anything is measured.

        Raises:
            ConfigError: a pair does not fit the federation.
            WorkloadError: the models would not be evaluated.
        """
        require_measured(self.workload, self.config, self.app, "pairs")
        for pair in self.pairs:
            parse_config(self._settings(pair, self.config.seed), str(pair))

    def _settings(self, pair: Pair, seed: int) -> dict[str, Any]:
        return settings_of(self.config, pair, seed, self.versions)

    def take_times(self) -> Iterator[Pair]:
        """Measures the times of encoding and decoding; yields each pair afterwards."""
        sample = first_updates(self.workload, self.config)
        self.dim = sum(sample.layout)
        known: dict[str, CodecTimes] = {}
        for pair in self.pairs:
            self.times.append(pair_times(pair, sample, known))
            yield pair

    def cells(self, *, fresh: bool) -> list[Cell]:
        """Returns the runs that are still to be simulated.

        Args:
            fresh: whether those that are known from before are simulated again.
        """
        code, ours = sources(self.app, self.place), program()
        left = []
        for number, pair in enumerate(self.pairs):
            for seed in range(self.config.seed, self.config.seed + self.seeds):
                settings = self._settings(pair, seed)
                key = identity(parse_config(settings), code, ours)
                known = None if fresh else self.cache.get(key)
                if known is None:
                    left.append(Cell(number, seed, key, settings))
                else:
                    self.trials[number, seed] = known
        return left

    def simulate(
        self, cells: Sequence[Cell], folder: Path, jobs: int
    ) -> Generator[tuple[int, Trial]]:
        """Simulates, keeps each result at once, and yields its pair's number.

        Args:
            cells: what to simulate.
            folder: the folder that holds the runs until their results were read.
            jobs: how many processes simulate.
        """

        def tasks(scratch: Path) -> Iterator[Task[tuple[int, int]]]:
            for cell in cells:
                key = (cell.number, cell.seed)
                yield Task(key, self.app, self.place, cell.settings, scratch)

        digests = {(cell.number, cell.seed): cell.key for cell in cells}
        results = simulate_all(simulate, tasks, folder, jobs)
        with closing(results):
            for task, trial in results:
                self.cache.put(digests[task.key], task.settings, trial)
                self.trials[task.key] = trial
                yield task.key[0], trial

    def row(self, number: int) -> Row | None:
        """A pair with its results; None while a seed or its times are missing."""
        trials = [t for (n, _), t in sorted(self.trials.items()) if n == number]
        if len(trials) < self.seeds or number >= len(self.times):
            return None
        return Row(self.pairs[number], tuple(trials), self.times[number])

    def comparison(self) -> Comparison | None:
        """The rows that are complete; None without the uncompressed pair."""
        if self.row(0) is None:
            return None
        rows = map(self.row, range(len(self.pairs)))
        has_section = "algorithm" in self.config.model_fields_set
        return Comparison(
            app=self.app,
            kind=None if has_section else self.config.algorithm.kind,
            dim=self.dim,
            versions=self.versions,
            seeds=self.seeds,
            tolerance=self.tolerance,
            rows=tuple(filter(None, rows)),
            asked=len(self.pairs),
        )
