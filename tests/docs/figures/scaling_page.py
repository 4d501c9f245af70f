"""docs/scaling.md: what it quotes of predictions, limits and rounds."""

from collections.abc import Iterator

from tests.docs.figures.series import Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "docs/scaling.md"
CHAPTERS = ("Predicted beside measured", "Is the flag right")
SAID = (r"accuracy 0\.85", r"\(0\.1, 0\.3, 1 and 3\)", r"\(1 \+ L / n\)")
WAYS = ("alike", "skewed")


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    paleo, limits = saved("paleo"), saved("batch_limit")
    for name, rows in paleo["models"].items():
        kinds = ("paper", "with_start", "of_median")
        ratios = [Series.of(row[kind] for row in rows) for kind in kinds]
        yield Quote("Predicted beside measured / model", name, pool(more=ratios))
    yield Quote("Predicted beside measured", "", pool(paleo["repetitions"]))
    for way in WAYS:
        for where, row in limits[way]["limits"].items():
            label = f"{way}, {where} |"
            yield Quote("Is the flag right / clients, model", label, pool(row))
    for cohort in limits["alike"]["rounds"]:
        found = [limits[way]["rounds"].get(cohort, {}) for way in WAYS]
        label = f"{cohort} client"
        yield Quote("Is the flag right / averaged", label, pool(found))
    yield Quote("Is the flag right", "", pool(limits))
