"""One simulation of many: it ends in any case, and its costs are counted.

Bytes are those of the payloads that travelled. Counted are updates that got a
verdict and what went down to clients with their tasks, patches included; what the
evaluator is given is not counted, since it is there to compare alone.
"""

from pathlib import Path
from typing import Any, NamedTuple

from fedcore.coordinator.events import Event
from fedcore.coordinator.records import Decided, Leased
from fedcore.errors import DivergedError, LatecomerError, WorkloadError
from fedcore.workload import Workload
from fedrun.config import FederationConfig
from fedrun.results import Results, Table
from fedrun.run import Run
from fedsim.api import run

# Events without a new version, per client, after which a federation has broken down:
# its clients train and train, and nothing that can be used comes of it.
PATIENCE = 500


class Played(NamedTuple):
    """A simulation that has ended."""

    results: Results
    broken: bool
    """No version was made any more, or the updates were not finite."""


class Costs(NamedTuple):
    """What a run took."""

    updates: int
    bytes_up: int
    bytes_down: int


class _BrokenDownError(LatecomerError):
    """The federation makes no versions any more."""


def require_measured(
    workload: Workload, config: FederationConfig, app: str, what: str
) -> None:
    """Nothing is simulated where nothing would measure the models.

    Args:
        workload: of the federation.
        config: which may have clients evaluate.
        app: the workload's name.
        what: is compared, for the message.

    Raises:
        WorkloadError: there is no data to measure with.
    """
    if workload.test_data is None and not (
        config.evaluate.clients and workload.valid_data
    ):
        raise WorkloadError(f"app {app!r}: has no test_data to compare the {what} with")


def play(workload: Workload, settings: dict[str, Any], folder: Path) -> Played:
    """Simulates a federation; one which breaks down is ended.

    Args:
        workload: of the federation.
        settings: its whole config, as plain data.
        folder: of the run.
    """
    broken = False
    try:
        run(settings, workload, folder=folder, on_event=_Patience(settings))
    except (_BrokenDownError, DivergedError):
        broken = True
    return Played(Results(folder), broken)


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


def costs_of(results: Results) -> Costs:
    """Updates that got a verdict, and the bytes that clients moved."""
    decided = results.of(Decided)
    down = (r.nbytes for r in results.of(Leased) if r.cid not in results.evaluators)
    return Costs(len(decided), sum(r.nbytes for r in decided), sum(down))


def evaluations(results: Results) -> Table:
    """Those of the evaluator; where there is none, those of the clients."""
    central = results.central
    return central if central.get("version") else results.federated
