"""Records as tables: dicts of columns, which a data frame takes as they are."""

import math
from typing import Any

from fedcore.coordinator.records import Decided, Leased, Lost, Stepped
from fedrun.results.coverage import Coverage
from fedrun.results.records import Records

Table = dict[str, list[Any]]


def versions(run: Records) -> Table:
    """Published versions."""
    rows = [
        {
            "seconds": r.at - run.started,
            "version": r.version,
            "reason": r.reason,
            "updates": r.count,
            "message_bytes": r.nbytes,
            "gap_norm": r.gap_norm,
        }
        for r in run.of(Stepped)
    ]
    return columns(rows)


def updates(run: Records) -> Table:
    """Updates with their verdicts."""
    rows = [
        {
            **run.place(r),
            "sequence": r.seq,
            "base": r.base,
            "staleness": r.staleness,
            "verdict": r.verdict.value,
            "weight": r.weight,
            "reason": r.reason,
            "samples": r.samples,
            "steps": r.steps,
            "loss": r.loss,
            "bytes": r.nbytes,
            "update_norm": r.update_norm,
            "memory_norm": r.memory_norm,
            "oldest": r.oldest,
        }
        for r in run.of(Decided)
    ]
    return columns(rows)


def tasks(run: Records) -> Table:
    """Tasks that clients were given, with the bytes of the models beside them."""
    rows = [
        {
            **run.place(r),
            "version": r.version,
            "task": r.task,
            "patch": r.patch,
            "bytes": r.nbytes,
        }
        for r in run.of(Leased)
    ]
    return columns(rows)


def losses(run: Records) -> Table:
    """When clients were lost."""
    return columns([run.place(r) for r in run.of(Lost)])


def shares(run: Records, coverage: Coverage) -> Table:
    """What each client has in the model, and when its last update was accepted."""
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
    """What each label has in the model, where clients told which ones they used."""
    rows = [
        {"label": label, **found._asdict()} for label, found in coverage.labels.items()
    ]
    return columns(rows)


def is_number(value: float | None) -> bool:
    """Whether a value is a finite number."""
    return value is not None and math.isfinite(value)


def columns(rows: list[dict[str, Any]]) -> Table:
    """Rows as columns; a row without a column has None there."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}
