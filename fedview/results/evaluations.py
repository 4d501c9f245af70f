"""The evaluations of a run as tables: by evaluators, by clients, and the best."""

import math

from fedcore.coordinator.events import Evaluated
from fedcore.coordinator.settings import lower_is_better
from fedcore.text import printable
from fedview.results.records import Records
from fedview.results.tables import Table, columns, is_number

SUPPORT = "_n"  # ends the name of the column with a metric's number of samples
METRIC = " (metric)"  # ends the name of a metric's column that has another's name
NOT_METRICS = ("seconds", "version", "client", "central", "samples", "clients")


def all_evaluations(run: Records) -> Table:
    """Makes a table of evaluations, with a column for each metric."""
    rows = [
        {
            **run.place(r),
            "version": r.version,
            "central": r.cid in run.evaluators,
            "samples": r.samples,
            **_values(r),
        }
        for r in run.of(Evaluated)
    ]
    return columns(rows)


def by_evaluators(metrics: Table) -> Table:
    """Returns the evaluations by evaluators, in the order of versions."""
    rows = [i for i, yes in enumerate(metrics.get("central", [])) if yes]
    rows.sort(key=lambda i: int(metrics["version"][i]))
    return {name: [column[i] for i in rows] for name, column in metrics.items()}


def by_version(run: Records) -> Table:
    """Returns evaluations by clients: for each version the mean, weighted by samples.

    The column ``NAME_n`` is the number of samples behind the metric ``NAME``: those of
    the clients for which it is a number. A client counts once for each version.
    """
    rows = [
        {
            "seconds": max(r.at for r in records.values()) - run.started,
            "version": version,
            "clients": len(records),
            "samples": sum(r.samples for r in records.values()),
            **_merge(list(records.values())),
        }
        for version, records in sorted(own_evaluations(run).items())
    ]
    return columns(rows)


def by_client(run: Records) -> Table:
    """Makes a table of each client's last evaluation."""
    newest: dict[str, Evaluated] = {}
    for _, records in sorted(own_evaluations(run).items()):
        newest |= records
    rows = [
        {**run.place(r), "version": r.version, "samples": r.samples, **_values(r)}
        for r in newest.values()
    ]
    return columns(sorted(rows, key=lambda row: str(row["client"])))


def own_evaluations(run: Records) -> dict[int, dict[str, Evaluated]]:
    """Returns the evaluations by clients that train, by version and client."""
    found: dict[int, dict[str, Evaluated]] = {}
    for r in run.of(Evaluated):
        if r.cid not in run.evaluators:
            found.setdefault(r.version, {})[r.cid] = r
    return found


def metric_names(table: Table) -> list[str]:
    """Returns the columns of a table of evaluations that are metrics."""
    return [name for name in table if name not in NOT_METRICS]


def best_values(central: Table) -> dict[str, tuple[float, int]]:
    """Returns the best central value of each metric, and the version that had it."""
    found = {}
    for name in metric_names(central):
        pairs = zip(central[name], central["version"], strict=True)
        known = [pair for pair in pairs if is_number(pair[0])]
        if known:
            pick = min if lower_is_better(name) else max
            found[name] = pick(known, key=lambda pair: pair[0])
    return found


def _values(record: Evaluated) -> dict[str, float]:
    """Returns a record's metrics; one that is named like another column says so."""
    values = {printable(k): v for k, v in record.values.items()}
    return {k + METRIC * (k in NOT_METRICS): v for k, v in values.items()}


def _merge(records: list[Evaluated]) -> dict[str, float]:
    """Returns the mean of each metric over clients, weighted by their samples.

    Each is followed by its number of samples; NaN and 0 if no client has a number.
    """
    read = [(record, _values(record)) for record in records]
    alike = not any(record.samples for record in records)
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for _, values in read for name in values):
        pairs = [
            (1 if alike else record.samples, values[name])
            for record, values in read
            if is_number(values.get(name)) and (alike or record.samples)
        ]
        total = sum(weight for weight, _ in pairs)
        found[name] = _mean(pairs, total) if total else math.nan
        found[name + SUPPORT] = 0 if alike else total
    return found


def _mean(pairs: list[tuple[int, float]], total: int) -> float:
    """Returns the mean of values with their weights, also where their sum overflows."""
    mean = sum(weight * value for weight, value in pairs) / total
    if math.isfinite(mean):
        return mean
    return sum(weight / total * value for weight, value in pairs)
