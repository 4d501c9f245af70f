"""The metrics that ``/metrics`` exposes: names, types, labels, help, and their values.

Names follow the conventions of Prometheus: a unit at the end, ``_total`` for counters.
No label is a client's id or name, because their number has no bound. The table in the
documentation is generated from this list.

Reading the values takes no lock of the core thread: counters are single numbers or
copies that Python makes atomically, so a value may be one record newer than another
one.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from typing import Any, Literal, NamedTuple, get_args

from fedcore.coordinator.events import StepReason
from fedcore.protocol import TaskKind, Verdict
from fedserver.view.progress import ACTS, STALENESS_BOUNDS, Progress
from fedview.results.coverage import Activity

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
Samples = Mapping[Labels, float]

MOST_NAMES = 64  # metrics of evaluators


class Histogram(NamedTuple):
    """A histogram in the form that Prometheus expects."""

    buckets: list[tuple[str, float]]
    """Upper bounds, each with the number of values that are not above it."""
    total: float


class Metric(NamedTuple):
    """One metric."""

    name: str
    value: Callable[[Progress], float | Mapping[Any, float] | Histogram]
    """A number, numbers by the only label, samples by all labels, or bins."""
    help: str
    labels: Labels = ()
    known: tuple[str, ...] = ()
    """The possible values of its label; those that did not occur count 0."""
    values: str = ""
    """A description of the label's values."""

    @property
    def kind(self) -> Kind:
        """The kind of the metric."""
        if self.name.endswith("_total"):
            return "counter"
        return "histogram" if self.value is _staleness else "gauge"

    def read(self, progress: Progress) -> Samples | Histogram:
        """Returns the values of the metric; any thread may call this."""
        found = self.value(progress)
        if isinstance(found, Histogram):
            return found
        if not isinstance(found, Mapping):
            return {(): found}
        every: dict[Any, float] = {**dict.fromkeys(self.known, 0), **found}
        return {(k,) if isinstance(k, str) else k: v for k, v in every.items()}


def _staleness(progress: Progress) -> Histogram:
    bounds = [*(str(float(bound)) for bound in STALENESS_BOUNDS), "+Inf"]
    counts = accumulate(list(progress.staleness_T))
    return Histogram(list(zip(bounds, counts, strict=True)), progress.staleness_sum)


def _read_metrics(progress: Progress) -> Mapping[str, float]:
    values = progress.metrics[-1][1] if progress.metrics else {}
    return dict(list(values.items())[:MOST_NAMES])


def _bytes(progress: Progress) -> Mapping[str, float]:
    framed: dict[str, float] = {}
    for lane, load in progress.traffic.sums().items():
        framed[lane.way] = framed.get(lane.way, 0) + load.framed
    return framed


def _payload(progress: Progress) -> Samples:
    sums = progress.traffic.sums()
    return {
        (at.way, at.codec): load.payload for at, load in sums.items() if load.payload
    }


def _info(progress: Progress) -> Samples:
    try:
        release = version("latecomer")
    except PackageNotFoundError:
        release = "unknown"
    run = progress.run
    return {(run.run_id, run.config.algorithm.kind, release): 1}


METRICS = (
    # -------------------------------------------------------------------------- updates
    Metric(
        "fed_updates_total",
        lambda p: p.verdicts,
        "Updates that were decided on.",
        ("verdict",),
        tuple(verdict.value for verdict in Verdict),
    ),
    Metric(
        "fed_update_staleness_versions",
        _staleness,
        "How many versions late updates were; malformed and discarded ones are not "
        "counted.",
    ),
    Metric(
        "fed_accepted_timestamp_seconds",
        lambda p: p.accepted_at,
        "Unix time at which the newest update was accepted; 0 before the first one.",
    ),
    Metric(
        "fed_buffer_updates",
        lambda p: p.state.count,
        "Accepted updates that wait for a version.",
    ),
    Metric(
        "fed_buffer_size_updates",
        lambda p: p.run.config.algorithm.buffer,
        "Updates that fill the buffer (K).",
    ),
    # ------------------------------------------------------------------------- versions
    Metric(
        "fed_version", lambda p: p.state.version, "The newest version of the model."
    ),
    Metric(
        "fed_version_timestamp_seconds",
        lambda p: p.version_at,
        "Unix time at which the newest version was made; for version 0, when the "
        "run began.",
    ),
    Metric(
        "fed_versions_total",
        lambda p: p.versions,
        "Versions that were made.",
        ("reason",),
        get_args(StepReason),
    ),
    Metric(
        "fed_evaluated_version",
        lambda p: p.metrics[-1][0] if p.metrics else {},
        "The version whose metrics are the newest; absent before the first evaluation.",
    ),
    Metric(
        "fed_evaluated_metric",
        _read_metrics,
        "The newest value of each metric that an evaluator reports.",
        ("name",),
        values=f"the metric's name, such as accuracy; the first {MOST_NAMES} names",
    ),
    # -------------------------------------------------------------------------- clients
    Metric(
        "fed_clients",
        lambda p: p.activities,
        "Clients of the run by what they do.",
        ("state",),
        tuple(Activity),
    ),
    Metric(
        "fed_clients_connected",
        lambda p: p.sessions.here,
        "Clients that gave a sign of life within timeouts.lost.",
    ),
    Metric(
        "fed_clients_lost_total",
        lambda p: p.lost,
        "How often a client was silent for timeouts.lost.",
    ),
    Metric(
        "fed_tasks_total",
        lambda p: p.tasks,
        "Tasks that clients were given.",
        ("task",),
        get_args(TaskKind),
    ),
    Metric(
        "fed_tasks_declined_total",
        lambda p: p.declined,
        "Tasks that were refused before they were computed.",
    ),
    Metric(
        "fed_tasks_failed_total",
        lambda p: p.failed,
        "Tasks in which the user's code raised.",
    ),
    Metric(
        "fed_samples_skipped_total",
        lambda p: p.skipped,
        "Samples that the user's code left out of tasks.",
    ),
    Metric(
        "fed_claims_unproved_total",
        lambda p: p.unproved,
        "Claims of a later state that were made without a proof.",
    ),
    # -------------------------------------------------------------------------- traffic
    Metric(
        "fed_bytes_total",
        _bytes,
        "Bytes of gRPC messages.",
        ("direction",),
        ("up", "down"),
        "up: from clients, down: to clients",
    ),
    Metric(
        "fed_payload_bytes_total",
        _payload,
        "Bytes of the payloads in those messages, as codecs made them.",
        ("direction", "codec"),
        values="up, down; the payload format, such as levels",
    ),
    # -------------------------------------------------------------------------- journal
    Metric(
        "fed_journal_records_total", lambda p: p.recorded, "Records that are durable."
    ),
    Metric(
        "fed_journal_lag_records",
        lambda p: p.core.lag[0],
        "Records of handled events that are not durable yet.",
    ),
    Metric(
        "fed_journal_lag_seconds",
        lambda p: p.core.lag[1],
        "How long the oldest of those records has waited.",
    ),
    Metric(
        "fed_core_waiting_events",
        lambda p: p.core.waiting,
        "Events that wait for the one thread that decides, about.",
    ),
    Metric(
        "fed_disk_fails",
        lambda p: bool(p.core.trouble),
        "1 while the disk takes no records; no work is taken then.",
    ),
    # -------------------------------------------------------------------------- the run
    Metric(
        "fed_operator_acts_total",
        lambda p: p.acts,
        "What operators did.",
        ("act",),
        tuple(ACTS.values()),
    ),
    Metric(
        "fed_paused",
        lambda p: p.state.is_paused,
        "1 while an operator has paused the run.",
    ),
    Metric(
        "fed_ended", lambda p: p.state.closed is not None, "1 once the run has ended."
    ),
    Metric(
        "fed_stalled",
        lambda p: p.stalled is not None,
        "1 while no update is accepted for a minute and ten times the usual while.",
    ),
    Metric("fed_ready", lambda p: not p.not_ready(), "1 while /readyz answers 200."),
    Metric(
        "fed_run_info",
        _info,
        "Always 1; its labels say which run this is.",
        ("run", "recipe", "release"),
        values="the run's id, algorithm.kind, the version of latecomer",
    ),
)
"""All metrics, in the order of the documentation."""
