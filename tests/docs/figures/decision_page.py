"""docs/decisions/0023-latecomers-weights.md: what it quotes of claims and of rates."""

import math
from collections.abc import Iterator, Sequence

from benchmarks.asynchrony.contenders import ADA, BOOSTED, UNBOOSTED, Rates
from benchmarks.asynchrony.tune import Tried
from tests.docs.figures import asynchrony
from tests.docs.figures.papers_page import claim
from tests.docs.figures.series import Series, pool
from tests.docs.figures.units import Quote

PAGE = "docs/decisions/0023-latecomers-weights.md"
SAID = (
    r"1/√\(1 \+ τ\)|s = [\d.]+|AdaSGD at 90|exponent: 0\.5",
    r"[Tt]ime to \.80|client rate \.1|client\s+rate of \.2|150 at most|seed 0",
    r"240 versions|20 versions|against 1\.|α = 1\.5|1,000 clients|of 4\b",
)
CHAPTER = "Latecomer dampens by a square root, and lifts rare labels"
CLIENT, SERVERS = 0.1, (1.0, 0.5)  # the rates of the table


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    late = claim(18)["tables"]
    for name in late[0]["rows"]:
        found = [table["rows"][name] for table in late]
        yield Quote(f"{CHAPTER} / weights", f"{name} |", pool(found))
    yield Quote(CHAPTER, "After a third", pool(late))
    yield Quote(CHAPTER, "Cost.", pool(late, more=list(_sought())))


def _sought() -> Iterator[Series]:
    """With Pareto's speeds and 1,000 in flight: all rates that were tried."""
    kept = asynchrony.campaign("pareto", 1000)
    for name in (ADA, BOOSTED, UNBOOSTED):
        for tried in kept.tried(name):
            yield Series.of([tried.seconds])
            yield Series.of([tried.best])
            yield from (Series.of([rate]) for rate in tried.rates)


def rows() -> set[str]:
    """The second table."""
    return {
        _row(server, *setting) for server in SERVERS for setting in asynchrony.TITLES
    }


def _row(server: float, speed: str, flight: int) -> str:
    kept, rates = asynchrony.campaign(speed, flight), Rates(CLIENT, server)
    times = (_time(kept.tried(name), rates) for name in (ADA, UNBOOSTED, BOOSTED))
    title = asynchrony.TITLES[speed, flight]
    return f"| {asynchrony.bare(server)}, {title} | {' | '.join(times)} |"


def _time(tried: Sequence[Tried], rates: Rates) -> str:
    found = {each.rates: each.seconds for each in tried}
    if rates not in found:
        return "not tried"
    return f"{found[rates]:.1f}" if math.isfinite(found[rates]) else "-"
