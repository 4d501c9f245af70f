"""The list of metrics that ``/metrics`` exposes: names, types, labels and help.

Names keep to the conventions of Prometheus: a unit at the end, ``_total`` for counters.
No label is a client's id or name: their number has no bound. The documentation's table
is this list, and :mod:`fedserver.web.figures` gives each metric its values.
"""

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
    """One metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    values: str = ""
    """What the values of the labels are, in words."""


METRICS = (
    # ------------------------------------------------------------------ updates
    Metric(
        "fed_updates_total",
        "counter",
        "Updates that were decided on.",
        ("verdict",),
        "accepted, rejected_stale, rejected_closed, rejected_policy, "
        "rejected_malformed, discarded",
    ),
    Metric(
        "fed_update_staleness_versions",
        "histogram",
        "How many versions late updates were; malformed and discarded ones are not "
        "counted.",
    ),
    Metric(
        "fed_accepted_timestamp_seconds",
        "gauge",
        "Unix time at which the newest update was accepted; 0 before the first one.",
    ),
    Metric("fed_buffer_updates", "gauge", "Accepted updates that wait for a version."),
    Metric("fed_buffer_size_updates", "gauge", "Updates that fill the buffer (K)."),
    # ----------------------------------------------------------------- versions
    Metric("fed_version", "gauge", "The newest version of the model."),
    Metric(
        "fed_version_timestamp_seconds",
        "gauge",
        "Unix time at which the newest version was made; for version 0, when the run "
        "began.",
    ),
    Metric(
        "fed_versions_total",
        "counter",
        "Versions that were made.",
        ("reason",),
        "buffer, deadline, flush",
    ),
    Metric(
        "fed_evaluated_version",
        "gauge",
        "The version whose metrics are the newest; absent before the first evaluation.",
    ),
    Metric(
        "fed_evaluated_metric",
        "gauge",
        "The newest value of each metric that an evaluator reports.",
        ("name",),
        "the metric's name, such as accuracy; the first 64 names",
    ),
    # ------------------------------------------------------------------ clients
    Metric(
        "fed_clients",
        "gauge",
        "Clients of the run by what they do.",
        ("state",),
        "idle, trains, evaluates, rests, away, lost, failed, left, evicted",
    ),
    Metric(
        "fed_clients_connected",
        "gauge",
        "Clients that gave a sign of life within timeouts.lost.",
    ),
    Metric(
        "fed_clients_lost_total",
        "counter",
        "How often a client was silent for timeouts.lost.",
    ),
    Metric(
        "fed_tasks_total",
        "counter",
        "Tasks that clients were given.",
        ("task",),
        "train, evaluate",
    ),
    Metric(
        "fed_tasks_declined_total",
        "counter",
        "Tasks that were refused before they were computed.",
    ),
    Metric(
        "fed_tasks_failed_total", "counter", "Tasks in which the user's code raised."
    ),
    Metric(
        "fed_samples_skipped_total",
        "counter",
        "Samples that the user's code left out of tasks.",
    ),
    Metric(
        "fed_claims_unproved_total",
        "counter",
        "Claims of a later state that were made without a proof.",
    ),
    # ------------------------------------------------------------------ traffic
    Metric(
        "fed_bytes_total",
        "counter",
        "Bytes of gRPC messages.",
        ("direction",),
        "up: from clients, down: to clients",
    ),
    Metric(
        "fed_payload_bytes_total",
        "counter",
        "Bytes of the payloads in those messages, as codecs made them.",
        ("direction", "codec"),
        "up, down; the payload format, such as levels",
    ),
    # ------------------------------------------------------------------ journal
    Metric("fed_journal_records_total", "counter", "Records that are durable."),
    Metric(
        "fed_journal_lag_records",
        "gauge",
        "Records of handled events that are not durable yet.",
    ),
    Metric(
        "fed_journal_lag_seconds",
        "gauge",
        "How long the oldest of those records has waited.",
    ),
    Metric(
        "fed_core_waiting_events",
        "gauge",
        "Events that wait for the one thread that decides, about.",
    ),
    Metric(
        "fed_disk_fails",
        "gauge",
        "1 while the disk takes no records; no work is taken then.",
    ),
    # ---------------------------------------------------------------- the run
    Metric(
        "fed_operator_acts_total",
        "counter",
        "What operators did.",
        ("act",),
        "pause, resume, evict, readmit, free, snapshot",
    ),
    Metric("fed_paused", "gauge", "1 while an operator has paused the run."),
    Metric("fed_ended", "gauge", "1 once the run has ended."),
    Metric(
        "fed_stalled",
        "gauge",
        "1 while no update is accepted for a minute and ten times the usual while.",
    ),
    Metric("fed_ready", "gauge", "1 while /readyz answers 200."),
    Metric(
        "fed_run_info",
        "gauge",
        "Always 1; its labels say which run this is.",
        ("run", "recipe", "release"),
        "the run's id, algorithm.kind, the version of latecomer",
    ),
)
"""All metrics, in the order of the documentation."""

BY_NAME = {metric.name: metric for metric in METRICS}
