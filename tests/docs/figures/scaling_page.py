"""docs/scaling.md: what it quotes of predictions, limits and rounds."""

from collections.abc import Iterator

from benchmarks.series import EARLIER
from tests.docs.figures.series import Saved, Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "docs/scaling.md"
PREDICTED, FLAG = "Predicted beside measured", "Is the flag right"
CHAPTERS = (PREDICTED, FLAG)
SAID = (r"accuracy 0\.85", r"\(1 \+ L / n\)")
WAYS = ("alike", "skewed")


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    paleo, limits = saved("paleo"), saved("batch_limit")
    yield from _predicted(f"{PREDICTED} / model", paleo)
    yield Quote(PREDICTED, "", pool(paleo["repetitions"]))
    for way in WAYS:
        for where, row in limits[way]["limits"].items():
            label = f"{way}, {where} |"
            yield Quote(f"{FLAG} / clients, model", label, pool(row))
    for cohort in limits["alike"]["rounds"]:
        found = [limits[way]["rounds"].get(cohort, {}) for way in WAYS]
        yield Quote(f"{FLAG} / averaged", f"{cohort} client", pool(found))
    rates = [[rate] for rate in limits["rates"]]
    yield Quote(FLAG, "", pool(rates, {**limits, EARLIER: [], "machine": {}}))


def _predicted(heading: str, run: Saved) -> Iterator[Quote]:
    for name, rows in run["models"].items():
        kinds = ("paper", "with_start", "of_median")
        ratios = [Series.of(row[kind] for row in rows) for kind in kinds]
        yield Quote(heading, name, pool(more=ratios))
