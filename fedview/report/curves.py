"""The curves of metrics: by the evaluator, by clients, and of training."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fedcore.protocol import Verdict
from fedrun.evaluation import main_metric
from fedview.report import theme
from fedview.report.byte_counts import times_of_versions
from fedview.report.downsample import Bins, Floats, downsample, floats
from fedview.results import Results, Table, is_number

MOST_POINTS = 400
LOSS = "loss"


class Curve(NamedTuple):
    """The curve of one metric, as the evaluator or the clients computed it."""

    who: str
    colour: str
    seconds: Floats
    versions: Floats
    values: Floats
    samples: Floats
    markers: bool


def main_first(names: Iterable[str]) -> list[str]:
    """Sorts metrics: the one by which models are compared, the loss, the others."""
    names = list(names)
    main = main_metric(names)
    return sorted(names, key=lambda name: (name != main, name != LOSS))


def targets(results: Results) -> dict[str, float]:
    """Returns the values of metrics at which the run ends."""
    found = results.setting("stop", "target", default=dict[str, Any]())
    return {name: goal for name, goal in found.items() if isinstance(goal, int | float)}


def curves_of(results: Results, name: str) -> list[Curve]:
    """Returns the curves of a metric that have a finite value."""
    found = [
        _make_evaluation_curve(results, results.central, name, "evaluator", theme.BLUE),
        _make_evaluation_curve(
            results,
            results.federated,
            name,
            "clients, weighted by samples",
            theme.ORANGE,
        ),
    ]
    if name == LOSS:
        found.append(_training(results))
    return [c for c in found if np.isfinite(c.values).any()]


def _make_evaluation_curve(
    results: Results, table: Table, name: str, who: str, colour: str
) -> Curve:
    values = floats(table.get(name, []))
    known = np.flatnonzero(np.isfinite(values))
    rows = known[downsample(len(known), MOST_POINTS)]
    versions = [table["version"][i] for i in rows]
    published = times_of_versions(results, versions)
    seconds = floats(table.get("seconds", []))[rows]
    return Curve(
        who,
        colour,
        np.where(np.isfinite(published), published, seconds),
        floats(versions),
        values[rows],
        floats(table.get("samples", []))[rows],
        markers=len(rows) <= 60,
    )


def _newest_at(results: Results, seconds: Floats) -> Floats:
    """Returns the newest version that there was just before each of these moments."""
    versions = floats([0, *results.versions.get("version", [])])
    made = floats(results.versions.get("seconds", []))
    return versions[np.searchsorted(made, seconds)]


def _training(results: Results) -> Curve:
    """Returns the loss that clients reported with accepted updates, in bins.

    An update is drawn where it came, on all axes: at the version that was there then,
    and not at an older one that it was trained from.
    """
    table = results.updates
    rows = [
        i
        for i, verdict in enumerate(table.get("verdict", []))
        if verdict == Verdict.ACCEPTED.value and is_number(table["loss"][i])
    ]
    samples = floats([table["samples"][i] for i in rows])
    bins = Bins.of(len(rows), 120)

    def column(name: str) -> Floats:
        return floats([table[name][i] for i in rows])

    return Curve(
        "training loss of updates",
        theme.GREY,
        bins.mean(seconds := column("seconds")),
        bins.mean(_newest_at(results, seconds)),
        bins.mean(column("loss"), samples),
        bins.mean(samples) * bins.counts,
        markers=len(bins.starts) <= 10,
    )
