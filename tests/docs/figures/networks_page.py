"""docs/networks.md: the tables of bad links and of the drill, and what follows."""

from collections.abc import Iterator

from benchmarks.hospitals import report as hospitals
from benchmarks.hospitals.schedule import LATE
from benchmarks.netlab import report as netlab
from benchmarks.netlab.links import LINKS
from benchmarks.netlab.ways import OURS, UNCOMPRESSED, WAYS
from benchmarks.tables import markdown
from tests.docs.figures.series import Saved, Series, pool, saved
from tests.docs.figures.units import Quote

ARRIVED = ("accepted", "rejected_stale")
PAGE = "docs/networks.md"
DRILL, BAD, LONG = (
    "The drill of eight hospitals",
    "Six bad links",
    "Half an hour of cuts",
)
SAID = (
    r"six minutes|twenty rounds|digits 3 and 8|4 to 7 minutes|needs 20|5 to 15 minutes",
    r"3 to 8 minutes|8 minutes|12 minutes|2 minutes|buffer: \d|83,498 values",
    r"45 seconds|client 2 changes|20 seconds|takes 4 seconds|accuracy is \.95",
    r"HTTP/2|round trip of 600 ms|sites 6 and 7|rates? (?:of )?\.[24]",
)


def rows() -> set[str]:
    """Every line of every table that is made from the results."""
    drills = (drill(form) for form in ("processes", "simulated"))
    tables = (*drills, links(), federations(), long_run())
    return {row for table in tables for row in table}


def quotes() -> Iterator[Quote]:
    """What the text says of them."""
    yield Quote(DRILL, "", pool(saved("hospitals"), more=[*_by_way()]))
    yield Quote(BAD, "", pool(saved("netlab"), more=times_sooner()))
    yield Quote(LONG, "", pool(saved("netlab", netlab.LONG)))


def times_sooner() -> list[Series]:
    """How many times sooner latecomer is at its target, at one rate and at the best."""
    others = (UNCOMPRESSED, "uncompressed, synchronous, rate .4")
    ours = _runs(OURS)
    return [Series.of(netlab.times_sooner(ours, _runs(other))) for other in others]


def _by_way() -> Iterator[Series]:
    """What the text says of all seeds of a way, and of all updates that arrived."""
    for form in ("processes", "simulated"):
        for runs in saved("hospitals")[form]["ways"].values():
            yield Series.of(run["recall"] for run in runs)
            yield Series.of(run["shares"][f"hospital-{LATE}"] for run in runs)
            for run in runs:
                known = (run["verdicts"].get(each, 0) for each in ARRIVED)
                yield Series.of([sum(known)])


def drill(form: str) -> Iterator[str]:
    """The table of one form of the drill."""
    found = saved("hospitals")[form]["ways"]
    return markdown(hospitals.COLUMNS, hospitals.rows(found))


def links() -> Iterator[str]:
    """The table of the clients' links."""
    columns = ("client", "rate", "delay, one way", "loss, each way")
    cells = (
        [str(client), link.rate, f"{link.delay} ms", f"{link.loss} %"]
        for client, link in enumerate(LINKS)
    )
    return markdown(columns, cells)


def federations() -> Iterator[str]:
    """The table of the federations over these links."""
    found = {way: _runs(way) for way in WAYS}
    return markdown(netlab.COLUMNS, netlab.rows(found))


def long_run() -> Iterator[str]:
    """The table of the half hour of cuts."""
    columns = netlab.COLUMNS[:1] + netlab.COLUMNS[2:]
    (row,) = netlab.rows({"latecomer, 30 minutes": _runs(netlab.LONG)})
    return markdown(columns, [row[:1] + row[2:]])


def _runs(name: str) -> Saved:
    return saved("netlab", name)["runs"]
