"""docs/simulation.md: what it quotes of simulations and of their fidelity."""

from collections.abc import Iterator

from tests.docs.figures.benchmarks_page import rates
from tests.docs.figures.series import Saved, Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "docs/simulation.md"
CHAPTERS = ("Stacked execution", "Engines", "Fidelity")  # which tell of measurements
SAID = (  # settings
    r"2\^21 values|106,122 values|0\.56 to 2\.5 s|pilot of 30 s",
    r"95 % intervals|status \d",
)
SETTINGS = {  # as the page calls them
    "synchronous": "synchronous, 6 of 8",
    "FedBuff": "FedBuff, K = 3",
    "AdaSGD, one by one": "AdaSGD, K = 1",
    "AdaSGD, compressed": "AdaSGD, compressed both ways",
    "FedBuff, dropout": "FedBuff with dropout",
    "synchronous, dropout": "synchronous with dropout",
}


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    for name, row in saved("fidelity")["settings"].items():
        more = list(_errors(row["rows"]))
        label = f"{SETTINGS[name]} |"
        yield Quote("Fidelity / setting", label, pool(row, more=more))
    ratios = pool(saved("optimizers")["ratios"])
    said = (r"2,410 values",)
    yield Quote("Stacked execution", "Client optimisers", ratios, said)
    two, one, ray = (
        rates("processes", name)
        for name in saved("simulation")["tasks"]["processes"]["rows"]
    )
    yield Quote("Engines", "", pool(more=[two.over(one), ray.over(two)]))


def _errors(rows: Saved) -> Iterator[Series]:
    """By how many per cent predictions are off."""
    for row in rows.values():
        for side in ("replayed", "calibrated"):
            if row["measured"]:
                error = 100 * (row[side]["value"] / row["measured"] - 1)
                yield Series.of([error])
