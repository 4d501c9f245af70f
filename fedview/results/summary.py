"""Returns the main numbers of a run, by name."""

from collections import Counter
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from fedcore.coordinator.events import (
    Decided,
    Declined,
    HistoryForked,
    Leased,
    Stepped,
)
from fedcore.protocol import Verdict
from fedrun.traffic import Way
from fedview.results.evaluations import metric_names
from fedview.results.records import Records
from fedview.results.tables import Table


def counts_of(run: Records, messages: Mapping[Way, int] | None) -> dict[str, Any]:
    """Counts what was done, and the bytes transferred.

    Args:
        run: the records.
        messages: bytes in messages by direction; None of a simulation, which has no
            messages: its ``bytes_up`` and ``bytes_down`` are payloads.
    """
    decided, tasks = run.of(Decided), run.of(Leased)
    verdicts = Counter(record.verdict.value for record in decided)
    exchanges = len(decided) + sum(record.nbytes > 0 for record in tasks)
    payload_up = sum(record.nbytes for record in decided)
    payload_down = sum(record.nbytes for record in tasks)
    nbytes = messages or {"up": payload_up, "down": payload_down}
    return {
        "run": run.configured.run_id,
        "ended": run.end,
        "seconds": run.seconds,
        "versions": len(run.of(Stepped)),
        "clients": len(run.names) - len(run.evaluators),
        "updates": dict(verdicts),
        "declined": len(run.of(Declined)),
        "accepted": verdicts[Verdict.ACCEPTED.value],
        "bytes_up": nbytes["up"],
        "bytes_down": nbytes["down"],
        "in_messages": messages is not None,
        "payload_up": payload_up,
        "payload_down": payload_down,
        "bytes_uncompressed": 4 * run.dim * exchanges,
        "restored": len(run.of(HistoryForked)),
    }


def last_values(central: Table, federated: Table) -> dict[str, Any]:
    """Returns the last evaluation, by evaluators and by clients."""
    return {
        "metrics": {
            name: central[name][-1]
            for name in metric_names(central)
            if central[name] and central[name][-1] is not None
        },
        "samples": next(reversed(central.get("samples", [])), 0),
        "federated": {
            name: column[-1]
            for name, column in federated.items()
            if name != "seconds" and column[-1] is not None
        },
    }


def as_html(
    folder: Path, summary: Mapping[str, Any], best: Mapping[str, tuple[float, int]]
) -> str:
    """Returns the summary as a table, for a notebook."""
    counted = ["payload_up", "payload_down"]
    if summary["in_messages"]:
        counted = ["bytes_up", "bytes_down", *counted]
    facts = {
        "ended": summary["ended"] or "not yet",
        "seconds": f"{summary['seconds']:,.4g}",
        **{n: f"{summary[n]:,}" for n in ("versions", "clients", "accepted")},
        **{n: f"{summary[n]:,}" for n in counted},
        **{f"final {n}": f"{v:.4g}" for n, v in summary["metrics"].items()},
        **{f"best {n}": f"{v:.4g} at {at:,}" for n, (v, at) in best.items()},
    }
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{escape(str(folder))}</caption>{rows}</table>"
