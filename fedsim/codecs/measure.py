"""One pair, one seed: a simulation, and what it came to.

Bytes are those of the payloads that travelled. Counted are updates that got a
verdict and what went down to clients with their tasks, patches included; what the
evaluator is given is not counted, since it is there to compare alone.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedcore.coordinator.events import Event
from fedcore.coordinator.records import Decided, Leased
from fedcore.errors import LatecomerError
from fedcore.workload import Workload
from fedrun.app import load_app
from fedrun.config import FederationConfig
from fedrun.results import NOT_METRICS, Results, Table, is_number
from fedrun.run import Run
from fedsim.api import run
from fedsim.codecs.grid import Pair

EVALUATIONS = 20  # of each simulation, evenly spread over its versions
TAIL = 0.75  # evaluations after this share of the versions make the result
# Events without a new version, per client, after which a federation has broken down:
# its clients train and train, and nothing that can be used comes of it.
PATIENCE = 500


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


class _BrokenDownError(LatecomerError):
    """The federation makes no versions any more."""


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
    broken = False
    with TemporaryDirectory(dir=scratch) as folder:
        run_folder = Path(folder) / "run"
        try:
            run(settings, workload, folder=run_folder, on_event=_Patience(settings))
        except _BrokenDownError:
            broken = True
        return _read(Results(run_folder), seed, broken=broken)


class _Patience:
    """Ends a simulation in which nothing comes of the clients' work."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._most = PATIENCE * settings["simulate"]["clients"]
        self._version, self._events = 0, 0

    def __call__(self, run: Run, event: Event) -> None:
        """Counts what happens between two versions."""
        version = run.coordinator.state.version
        if version != self._version:
            self._version, self._events = version, 0
        self._events += 1
        if self._events > self._most and run.coordinator.state.closed is None:
            raise _BrokenDownError(f"no version after {version}")


def _read(results: Results, seed: int, *, broken: bool) -> Trial:
    decided = results.of(Decided)
    down = [r for r in results.of(Leased) if r.cid not in results.evaluators]
    table = results.central
    if not table.get("version"):
        table = results.federated
    return Trial(
        seed=seed,
        metrics={} if broken else last_means(table),
        evaluations=table,
        updates=len(decided),
        bytes_up=sum(record.nbytes for record in decided),
        bytes_down=sum(record.nbytes for record in down),
        seconds=results.seconds,
        broken=broken,
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
