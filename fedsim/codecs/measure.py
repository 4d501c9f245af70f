"""One pair, one seed: a simulation, and what it came to."""

import math
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedcore.workload import Workload
from fedrun.app import load_app
from fedrun.config import FederationConfig
from fedrun.results import NOT_METRICS, Table, is_number
from fedsim.campaign.play import Played, costs_of, evaluations, play
from fedsim.codecs.grid import Pair

EVALUATIONS = 20  # of each simulation, evenly spread over its versions
TAIL = 0.75  # evaluations after this share of the versions make the result


@dataclass(frozen=True)
class Task:
    """One simulation: all of it is plain data, for another process."""

    number: int  # of the pair
    seed: int
    app: str
    place: Path  # where the app is looked for
    settings: dict[str, Any]
    scratch: Path  # its run is here until it was read


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one simulation came to."""

    seed: int
    metrics: dict[str, float]
    """The mean of the last evaluations; a metric that was lost in them is absent."""
    evaluations: Table
    updates: int
    bytes_up: int
    bytes_down: int
    seconds: float
    """Virtual ones."""
    broken: bool = False
    """No version was made any more."""

    @property
    def up_per_update(self) -> float:
        """Bytes that went up for each update."""
        return self.bytes_up / self.updates if self.updates else math.nan

    @property
    def down_per_update(self) -> float:
        """Bytes that went down for each update, those of lost tasks included."""
        return self.bytes_down / self.updates if self.updates else math.nan


def settings_of(
    config: FederationConfig, pair: Pair, seed: int, versions: int
) -> dict[str, Any]:
    """The federation with this pair: as it is, but of the same length for all."""
    raw = config.model_dump(mode="json")
    raw["algorithm"]["uplink"] = pair.uplink.model_dump(mode="json")
    raw["algorithm"]["downlink"] = pair.downlink.model_dump(mode="json")
    raw["seed"] = seed
    raw["stop"] = {"versions": versions}
    raw["evaluate"]["every_versions"] = max(1, versions // EVALUATIONS)
    return raw


def measure(task: Task) -> Trial:
    """Simulates and reads the result; the run itself is not kept."""
    workload = load_app(task.app, task.place)
    return simulate(workload, task.settings, task.seed, task.scratch)


def simulate(
    workload: Workload, settings: dict[str, Any], seed: int, scratch: Path
) -> Trial:
    """What a simulation with these settings comes to."""
    with TemporaryDirectory(dir=scratch) as folder:
        played = play(workload, settings, Path(folder) / "run")
        return _read(played, seed)


def _read(played: Played, seed: int) -> Trial:
    table, costs = evaluations(played.results), costs_of(played.results)
    return Trial(
        seed=seed,
        metrics={} if played.broken else last_means(table),
        evaluations=table,
        updates=costs.updates,
        bytes_up=costs.bytes_up,
        bytes_down=costs.bytes_down,
        seconds=played.results.seconds,
        broken=played.broken,
    )


def last_means(table: Table) -> dict[str, float]:
    """The mean of each metric over the last quarter of the versions."""
    versions = table.get("version", [])
    late = [i for i, v in enumerate(versions) if v > TAIL * versions[-1]]
    means = {}
    for name, column in table.items():
        values = [column[i] for i in late]
        if name not in NOT_METRICS and values and all(map(is_number, values)):
            means[name] = math.fsum(values) / len(values)
    return means
