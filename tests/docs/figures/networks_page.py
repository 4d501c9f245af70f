"""docs/networks.md: the tables of bad links and of the drill, and what is said of them."""

from collections.abc import Iterator

from benchmarks.hospitals import report as hospitals
from benchmarks.netlab import report as netlab
from benchmarks.tables import markdown
from tests.docs.figures.series import Saved, Series, pool, saved
from tests.docs.figures.units import Quote

PAGE = "docs/networks.md"
SAID = ()


def rows() -> Iterator[str]:
    """Every line of every table that is made from the results."""
    for form in ("processes", "simulated"):
        yield from _drill(form)
    yield from _links()


def quotes() -> Iterator[Quote]:
    """What the text says of them."""
    return iter(())


def _drill(form: str) -> Iterator[str]:
    found = saved("hospitals")[form]["ways"]
    yield from markdown(hospitals.COLUMNS, hospitals.rows(found))


def _links() -> Iterator[str]:
    found = {way: kept["runs"] for way, kept in saved("netlab").items()}
    yield from markdown(netlab.COLUMNS, netlab.rows(found))
