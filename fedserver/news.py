"""Says in a sentence what a record tells the operator of a run."""

from fedcore.coordinator.acts import said
from fedcore.coordinator.records import (
    Closed,
    Evaluated,
    Evicted,
    Failed,
    Freed,
    HistoryForked,
    Lost,
    Paused,
    Readmitted,
    Skipped,
    SnapshotOrdered,
    Unpaused,
    Unproved,
)
from fedcore.text import printable
from fedrun.journal.codec import Row
from fedrun.results.failures import last_line
from fedserver.progress import Progress


def sentence_on(record: Row, progress: Progress) -> str:
    """Returns a sentence on a record; empty if it is no news."""
    name = progress.name(getattr(record, "cid", ""))
    match record:
        case Lost():
            return f"{name} is lost"
        case Failed():
            return f"{name} failed: {last_line(record.error)}"
        case Skipped():
            return f"{name} left out {record.count:,}: {printable(record.why)}"
        case Unproved():
            return f"{name} claims a later state, without proof"
        case HistoryForked():
            return f"a new history begins: {printable(record.reason)}"
        case Evaluated():
            values = "  ".join(f"{k} {v:.4g}" for k, v in record.values.items())
            values = printable(f"{values}, n = {record.samples:,}")
            client = progress.clients.get(record.cid)
            is_evaluator = client is None or client.role == "evaluator"
            who = "" if is_evaluator else f"{name}: "
            return f"{who}version {record.version}: {values}"
        case Closed():
            return f"the run has ended: {record.reason}"
        case Freed():
            return f"the operator frees the name {printable(record.name)}"
        case Paused() | Unpaused() | Evicted() | Readmitted() | SnapshotOrdered():
            return printable(said(record))
        case _:
            return ""
