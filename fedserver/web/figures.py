"""The values of all metrics, from the same counts as status, live view and JSON lines.

Reading them takes no lock of the core thread: counters are single numbers or copies
that Python makes at once, so a value may be one record newer than another one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from typing import NamedTuple, get_args

from fedcore.coordinator.records import StepReason
from fedcore.protocol import TaskKind, Verdict
from fedserver.core import Core
from fedserver.counts import ACTS, STALENESS_BOUNDS
from fedserver.progress import Progress
from fedserver.sessions import Sessions
from fedserver.stall import stall
from fedserver.web.metrics import METRICS, Metric

MOST_NAMES = 64  # metrics of evaluators
STATES = (
    "idle", "trains", "evaluates", "rests", "away", "lost", "failed", "left", "evicted",
)  # fmt: skip
VERDICTS = tuple(verdict.value for verdict in Verdict)
Labels = tuple[str, ...]
Samples = Mapping[Labels, float]


class Histogram(NamedTuple):
    """A histogram as Prometheus wants it."""

    buckets: list[tuple[str, float]]
    """Upper bounds, and how many values are not above them."""
    total: float


class Figures:
    """The values of all metrics of one run that is served."""

    def __init__(
        self,
        progress: Progress,
        core: Core,
        sessions: Sessions,
        is_ready: Callable[[], bool],
    ) -> None:
        """``is_ready`` says whether the server takes work."""
        self._progress, self._core, self._sessions = progress, core, sessions
        self._is_ready = is_ready

    def all(self) -> Iterator[tuple[Metric, Samples | Histogram]]:
        """Yields each metric of the list with its values; any thread may ask."""
        found: dict[str, Samples | Histogram] = {
            **self._of_updates(),
            **self._of_clients(),
            **self._of_bytes(),
            **self._of_the_run(),
        }
        for metric in METRICS:
            yield metric, found[metric.name]

    def _of_updates(self) -> dict[str, Samples | Histogram]:
        progress, counts = self._progress, self._progress.counts
        state = progress.run.coordinator.state
        evaluated = progress.metrics[-1:]
        values = dict(evaluated[0][1]) if evaluated else {}
        at_version = _one(evaluated[0][0]) if evaluated else {}
        return {
            "fed_updates_total": _each(counts.verdicts, VERDICTS),
            "fed_update_staleness_versions": _histogram(
                list(counts.staleness_T), counts.staleness_sum
            ),
            "fed_accepted_timestamp_seconds": _one(counts.accepted_at),
            "fed_buffer_updates": _one(state.count),
            "fed_buffer_size_updates": _one(progress.run.config.algorithm.buffer),
            "fed_version": _one(state.version),
            "fed_version_timestamp_seconds": _one(counts.version_at),
            "fed_versions_total": _each(counts.versions, get_args(StepReason)),
            "fed_evaluated_version": at_version,
            "fed_evaluated_metric": _each(dict(list(values.items())[:MOST_NAMES])),
        }

    def _of_clients(self) -> dict[str, Samples | Histogram]:
        counts = self._progress.counts
        states = dict.fromkeys(STATES, 0)
        for client in list(self._progress.clients.values()):
            states[client.doing.partition(" ")[0]] += 1  # "trains 12"
        return {
            "fed_clients": _each(states),
            "fed_clients_connected": _one(self._sessions.here),
            "fed_clients_lost_total": _one(counts.lost),
            "fed_tasks_total": _each(counts.tasks, get_args(TaskKind)),
            "fed_tasks_declined_total": _one(counts.declined),
            "fed_tasks_failed_total": _one(counts.failed),
            "fed_samples_skipped_total": _one(counts.skipped),
            "fed_claims_unproved_total": _one(counts.unproved),
        }

    def _of_bytes(self) -> dict[str, Samples | Histogram]:
        framed: dict[Labels, float] = {("up",): 0, ("down",): 0}
        payload: dict[Labels, float] = {}
        for lane, load in self._progress.traffic.sums().items():
            framed[lane.way,] += load.framed
            if load.payload:
                payload[lane.way, lane.codec] = load.payload
        return {"fed_bytes_total": framed, "fed_payload_bytes_total": payload}

    def _of_the_run(self) -> dict[str, Samples | Histogram]:
        progress, core = self._progress, self._core
        state, counts = progress.run.coordinator.state, progress.counts
        records, seconds = core.lag
        info = (progress.run.run_id, progress.run.config.algorithm.kind, _release())
        return {
            "fed_journal_records_total": _one(counts.records),
            "fed_journal_lag_records": _one(records),
            "fed_journal_lag_seconds": _one(seconds),
            "fed_core_waiting_events": _one(core.waiting),
            "fed_disk_fails": _one(bool(core.trouble)),
            "fed_operator_acts_total": _each(counts.acts, ACTS.values()),
            "fed_paused": _one(state.is_paused),
            "fed_ended": _one(state.closed is not None),
            "fed_stalled": _one(stall(progress, core.trouble) is not None),
            "fed_ready": _one(self._is_ready()),
            "fed_run_info": {info: 1},
        }


def _one(value: float) -> Samples:
    """A metric without labels."""
    return {(): value}


def _each(values: Mapping[str, float], known: Iterable[str] = ()) -> Samples:
    """A metric with one label; what is ``known`` to happen begins with 0."""
    counted = {**dict.fromkeys(known, 0), **values}
    return {(name,): value for name, value in counted.items()}


def _histogram(counts_T: list[int], total: float) -> Histogram:
    bounds = [*(str(float(bound)) for bound in STALENESS_BOUNDS), "+Inf"]
    return Histogram(list(zip(bounds, accumulate(counts_T), strict=True)), total)


def _release() -> str:
    try:
        return version("latecomer")
    except PackageNotFoundError:
        return "unknown"
