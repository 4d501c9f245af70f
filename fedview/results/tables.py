"""Makes tables of records: dicts of columns, which a data frame accepts."""

import math
from collections.abc import Mapping
from typing import Any

from fedcore.coordinator.events import Decided
from fedcore.text import printable
from fedview.results.coverage import Coverage
from fedview.results.records import Records

Table = dict[str, list[Any]]


# The columns of each table, and the records' fields that they show.
VERSIONS = {
    "version": "version",
    "reason": "reason",
    "updates": "count",
    "message_bytes": "nbytes",
    "gap_norm": "gap_norm",
}
UPDATES = {
    "sequence": "seq",
    "base": "base",
    "staleness": "staleness",
    "verdict": "verdict",
    "weight": "weight",
    "reason": "reason",
    "samples": "samples",
    "steps": "steps",
    "loss": "loss",
    "bytes": "nbytes",
    "update_norm": "update_norm",
    "memory_norm": "memory_norm",
    "oldest": "oldest",
}
TASKS = {"version": "version", "task": "task", "patch": "patch", "bytes": "nbytes"}


def table_of(run: Records, kind: type, shown: Mapping[str, str]) -> Table:
    """Makes a table of the records of a kind: seconds, client, and these fields."""
    rows = [
        {**run.place(r), **{name: getattr(r, field) for name, field in shown.items()}}
        for r in run.of(kind)
    ]
    return columns(rows)


def updates(run: Records) -> Table:
    """Makes a table of updates, with a column for each metric of their training."""
    table = table_of(run, Decided, UPDATES)
    if not table:
        return {}
    found = [record.metrics or {} for record in run.of(Decided)]
    names = dict.fromkeys(name for metrics in found for name in metrics)
    more = {f"metrics.{printable(n)}": [m.get(n) for m in found] for n in names}
    return {**table, "verdict": [v.value for v in table["verdict"]], **more}


def shares(run: Records, coverage: Coverage) -> Table:
    """Makes a table of each client's share in the model, and of its last update."""
    rows = [
        {
            "client": run.names.get(cid, cid),
            "updates": client.updates,
            "share": coverage.share(cid),
            "recent": coverage.recent_share(cid),
            "version": client.version,
            "seconds": None if client.at is None else client.at - run.started,
        }
        for cid, client in coverage.clients.items()
    ]
    return columns(rows)


def labels(coverage: Coverage) -> Table:
    """Makes a table of each label's share in the model, if clients report labels."""
    rows = [
        {"label": label, **found._asdict()} for label, found in coverage.labels.items()
    ]
    return columns(rows)


def is_number(value: float | None) -> bool:
    """Returns whether a value is a finite number."""
    return value is not None and math.isfinite(value)


def columns(rows: list[dict[str, Any]]) -> Table:
    """Turns rows into columns; a value that a row lacks is None."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}
