"""All measurements of a comparison of codecs, which may be stopped at any point."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fedcore.workload import Workload
from fedrun.config import FederationConfig, parse_config
from fedstudies.codecs.comparison import Comparison, Row
from fedstudies.codecs.measure import settings_of
from fedstudies.codecs.pairs import Pair
from fedstudies.codecs.timing import (
    CodecTimes,
    PairTimes,
    pair_times,
)
from fedstudies.first_updates import first_updates
from fedstudies.runner import require_measured
from fedstudies.runs import Cell, Runs


@dataclass(kw_only=True)
class Measurements(Runs):
    """The pairs of one federation, and their measurements so far."""

    config: FederationConfig
    workload: Workload
    pairs: list[Pair]
    """The uncompressed one first."""
    versions: int
    seeds: int
    tolerance: float
    dim: int = 0
    times: list[PairTimes] = field(default_factory=list)

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

    def cells(self) -> list[Cell]:
        """Returns all runs: each pair with each seed."""
        return [
            self.cell(number, parse_config(self._settings(pair, seed)))
            for number, pair in enumerate(self.pairs)
            for seed in range(self.config.seed, self.config.seed + self.seeds)
        ]

    def row(self, number: int) -> Row | None:
        """Returns a pair with its results; None while some are missing."""
        trials = [t for (n, _), t in sorted(self.trials.items()) if n == number]
        if len(trials) < self.seeds or number >= len(self.times):
            return None
        return Row(self.pairs[number], tuple(trials), self.times[number])

    def comparison(self) -> Comparison | None:
        """Returns the rows that are complete; None without the uncompressed pair."""
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
