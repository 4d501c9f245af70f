"""deploy/README.md: what processes take, as `make bench` measured it."""

from collections.abc import Iterator

from tests.docs.figures.series import Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "deploy/README.md"
CHAPTERS = ("Resources / process", "Resources / container")
SAID = (r"1,000,000 values", r"20 versions")
ROWS = {  # how a row begins, and the group and rows of the file that it quotes
    "server, idle": ("server, memory", "fedserver run, 650"),
    "the same with": ("server, memory", "fedserver run, 1,000,000"),
    "client, idle": ("client, memory", "fedclient join"),
    "start of a server": ("server, from start", "fedserver run, 650"),
}


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    yield Quote(CHAPTERS[1], "", pool(saved("containers")))
    groups = saved("speed")["benchmarks"]["start"]["groups"]
    for begins, (group, name) in ROWS.items():
        rows = next(rows for title, rows in groups.items() if title.startswith(group))
        found = [row for title, row in rows.items() if title.startswith(name)]
        seconds = [
            Series.of(row["ms"]["values"]).times(1e-3) for row in found if "ms" in row
        ]
        yield Quote(CHAPTERS[0], begins, pool(found, more=seconds))
