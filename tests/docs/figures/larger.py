"""The tables of docs/benchmarks.md on claims at a larger size."""

from collections.abc import Iterator
from itertools import chain

from tests.docs.figures.series import Pool, Saved, Series, pool, saved

MB = 1000.0  # kB


def claim(number: int) -> Saved:
    """What was saved of a claim at the larger size."""
    return next(c for c in saved("larger")["claims"] if c["claim"] == number)


def normalised() -> Iterator[str]:
    """Claim 24's rows: the accuracies of the server's and of the clients' images."""
    tables = [table["rows"] for table in claim(24)["tables"]]
    for name in tables[0]:
        cells = chain(*(rows[name].values() for rows in tables))
        yield f"| {name} | {' | '.join(map(_cell, cells))} |"


def searched() -> Iterator[str]:
    """Claim 21's rows: the accuracy, and MB up."""
    tables = [table["rows"] for table in claim(21)["tables"]]
    for name in tables[0]:
        label = f"`{name}`" if name == "skew_scout" else f"T = {float(name):g}"
        cells = []
        for rows in tables:
            cells += [_cell(rows[name]["accuracy"])]
            cells += [f"{rows[name]['kB up']['mean'] / MB:.1f}"]
        yield f"| {label.replace('0.', '.')} | {' | '.join(cells)} |"


def of_claim(number: int) -> Pool:
    """A claim's tables and checks, and the sizes in MB."""
    found = claim(number)
    megabytes = [
        Series.of([row["kB up"]["mean"] / MB])
        for table in found["tables"]
        for row in table["rows"].values()
        if "kB up" in row
    ]
    below = [abs(check["value"]) for check in found["checks"]]
    more = [*megabytes, *(Series.of([value]) for value in below)]
    return pool(found["tables"], found["checks"], more=more)


def _cell(told: Saved) -> str:
    return " ± ".join(_bare(told[stat]) for stat in ("mean", "spread"))


def _bare(number: float) -> str:
    return f"{number:.3f}".replace("0.", ".", 1) if number < 1 else f"{number:g}"
