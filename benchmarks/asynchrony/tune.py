"""Learning rates by a search that gives every contender the same number of runs.

Both rates move on a lattice of factors of two, from the same start for all. The
neighbours of the best point so far are tried, first on the axes, then on the diagonals,
then two steps away. A run ends soon after it has taken longer than the best one before
it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from benchmarks.asynchrony.contenders import Rates
from benchmarks.asynchrony.course import Outcome
from fedcore.typing import JSON, Seconds

START = Rates(0.1, 1.0)
LEARNT = 0.4  # an accuracy below which a run tells nothing but that it diverged
_SLACK = 5.0  # time units, since a moment is known an evaluation later
Place = tuple[int, int]  # factors of two, of client and server
_AXES = [(0, 1), (0, -1), (1, 0), (-1, 0)]
_DIAGONALS = [(-1, 1), (1, -1), (1, 1), (-1, -1)]
_FURTHER = [(0, 2), (0, -2), (2, 0), (-2, 0)]


class Tried(NamedTuple):
    """A point, and how good it is."""

    rates: Rates
    seconds: Seconds  # to the target; infinite if it was not reached in time
    best: float  # accuracy
    wall: float

    @property
    def order(self) -> tuple[float, float]:
        """Less is better; of runs that learnt nothing, the gentlest is the best."""
        if math.isinf(self.seconds) and self.best < LEARNT:
            return self.seconds, self.rates.client * self.rates.server
        return self.seconds, -self.best

    def to_json(self) -> JSON:
        """All of it."""
        return {
            "client": self.rates.client,
            "server": self.rates.server,
            "seconds": round(self.seconds, 2) if math.isfinite(self.seconds) else None,
            "best": round(self.best, 4),
            "wall": round(self.wall, 1),
        }

    @classmethod
    def from_json(cls, told: JSON) -> "Tried":
        """As it was saved."""
        seconds = math.inf if told["seconds"] is None else told["seconds"]
        rates = Rates(told["client"], told["server"])
        return cls(rates, seconds, told["best"], told["wall"])


Measure = Callable[[Rates, Seconds], Outcome]  # at these rates, for so long


def search(
    measure: Measure,
    target: float,
    limit: Seconds,
    runs: int,
    known: Sequence[Tried] = (),
) -> Iterator[Tried]:
    """Yields every point that it tries beside those that are known."""
    found = {_place(tried.rates): tried for tried in known}
    while len(found) < runs and (place := _next(found)) is not None:
        rates = Rates(START.client * 2.0 ** place[0], START.server * 2.0 ** place[1])
        soonest = min((tried.seconds for tried in found.values()), default=math.inf)
        patience = min(limit, soonest + _SLACK)
        outcome = measure(rates, patience)
        found[place] = Tried(rates, outcome.reaches(target), outcome.best, outcome.wall)
        yield found[place]


def _place(rates: Rates) -> Place:
    client, server = (
        math.log2(rate / start) for rate, start in zip(rates, START, strict=True)
    )
    return round(client), round(server)


def _next(found: dict[Place, Tried]) -> Place | None:
    if not found:
        return 0, 0
    client, server = min(found, key=lambda place: found[place].order)
    for more in (*_AXES, *_DIAGONALS, *_FURTHER):
        place = client + more[0], server + more[1]
        if place not in found:
            return place
    return None
