"""Scaling up against scaling out: kinds of machines, by seconds and by price.

Scaling up takes a bigger machine, scaling out takes more of them. A price is that of
all machines for all seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fedcore.planning.batch_limit import BatchLimit
from fedcore.planning.scaling import Scaling
from fedcore.planning.volatile_workers import HOUR
from fedcore.typing import JSON, Seconds
from fedrun import units
from fedstudies.frame import Part
from fedstudies.prices.price_file import MachinesConfig
from fedstudies.tables import Cells

_STRONG = (
    "Time and price of the same total work, a round of the most machines (strong "
    "scaling). A machine alone exchanges nothing, and the server has no price."
)
_WEAK = "The same for a round in which each machine has its own work (weak scaling)."


class Fleet(NamedTuple):
    """Machines of one kind that share a work."""

    kind: str
    number: int
    seconds: Seconds
    price: float
    gain: float
    """Strong scaling: the speed-up; weak scaling: the efficiency."""


class Turn(NamedTuple):
    """The number of small machines from which on they replace a bigger one."""

    up: Fleet
    """The bigger machine alone."""
    out: Fleet | None
    """The fewest small ones that are as fast; None: no number of them is."""

    @property
    def is_up_better(self) -> bool:
        """Whether the bigger machine costs no more at this speed."""
        return self.out is None or self.up.price <= self.out.price


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Kinds of machines, and the times that are predicted for them."""

    prices: MachinesConfig
    scalings: Sequence[Scaling]
    """Of each kind."""

    @property
    def strong(self) -> list[Fleet]:
        """All fleets, at the same total work."""
        return self._fleets("strong", "speedups")

    @property
    def weak(self) -> list[Fleet]:
        """All fleets, at the same work of each machine."""
        return self._fleets("weak", "efficiencies")

    def _fleets(self, times: str, gains: str) -> list[Fleet]:
        return [
            Fleet(kind.name, n, seconds, n * seconds * kind.price / HOUR, gain)
            for kind, of in zip(self.prices.machines, self.scalings, strict=True)
            for n, seconds, gain in zip(
                of.workers, getattr(of, times), getattr(of, gains), strict=True
            )
        ]

    @property
    def cheapest(self) -> Fleet:
        """The fleet with the lowest price for the same total work."""
        return min(self.strong, key=lambda fleet: (fleet.price, fleet.seconds))

    @property
    def fastest(self) -> Fleet:
        """The fleet that takes the least time for the same total work."""
        return min(self.strong, key=lambda fleet: (fleet.seconds, fleet.price))

    @property
    def sizes(self) -> list[Fleet]:
        """One machine of each size: the dearer an hour is, the faster it is alone.

        A kind that is neither cheaper nor faster than another one is left out.
        """
        alone = [fleet for fleet in self.strong if fleet.number == 1]
        pairs = zip(self.prices.machines, alone, strict=True)
        found: list[Fleet] = []
        for _, one in sorted(pairs, key=lambda pair: (pair[0].price, pair[1].seconds)):
            if not found or one.seconds < found[-1].seconds:
                found.append(one)
        return found

    @property
    def turns(self) -> list[Turn]:
        """Each bigger machine beside many of the smallest."""
        small, *bigger = self.sizes
        many = [fleet for fleet in self.strong if fleet.kind == small.kind]
        return [
            Turn(up, next((out for out in many if out.seconds <= up.seconds), None))
            for up in bigger
        ]

    # ----------------------------------------------------------------------- in words

    @property
    def sentences(self) -> list[str]:
        """The recommendations, and where scaling up beats scaling out."""
        lines = [
            "For the same total work, the cheapest choice is "
            f"{self._cost(self.cheapest)}, and the fastest one "
            f"{self._cost(self.fastest)}."
        ]
        for turn in self.turns:
            one = self._cost(turn.up)
            if turn.out is None:
                lines.append(
                    f"No number of {self.sizes[0].kind} that was asked for is as fast "
                    f"as {one}: scale up for that speed."
                )
            else:
                way = "up" if turn.is_up_better else "out"
                lines.append(
                    f"{self._cost(turn.out)} are the fewest as fast as {one}: scale "
                    f"{way} for that speed."
                )
        return lines

    def _cost(self, fleet: Fleet) -> str:
        price = f"{units.digits(fleet.price)} {self.prices.currency}"
        return (
            f"{fleet.number} {fleet.kind} ({units.in_seconds(fleet.seconds)}, {price})"
        )

    def parts(self, limit: BatchLimit | None, batch: int) -> list[Part]:
        """Returns a table for each of strong and weak scaling.

        Args:
            limit: that of samples; None: it is unknown.
            batch: samples of a step of one machine.
        """
        return [
            Part(
                "Machines at the same total work",
                _STRONG,
                self._cells(self.strong, "speed-up"),
                anchor="machines",
                notes=[limit_in_words(limit, batch)],
                highlighted=self.strong.index(self.cheapest),
            ),
            Part(
                "Machines at the same work each",
                _WEAK,
                self._cells(self.weak, "efficiency"),
                anchor="machines-weak",
            ),
        ]

    def _cells(self, fleets: Sequence[Fleet], gain: str) -> Cells:
        rows = [
            (
                fleet.kind,
                f"{fleet.number}",
                units.in_seconds(fleet.seconds),
                units.digits(fleet.price),
                units.digits(fleet.gain),
            )
            for fleet in fleets
        ]
        head = ("machine", "number", "time", self.prices.currency, gain)
        return Cells(head, rows, " nnnn")

    def as_json(self) -> JSON:
        """Returns the prices, the tables and the recommendations as plain data."""
        return {
            **self.prices.model_dump(),
            "strong": [fleet._asdict() for fleet in self.strong],
            "weak": [fleet._asdict() for fleet in self.weak],
            "cheapest": self.cheapest._asdict(),
            "fastest": self.fastest._asdict(),
            "up_or_out": [
                {
                    "up": turn.up._asdict(),
                    "out": None if turn.out is None else turn.out._asdict(),
                    "is_up_better": turn.is_up_better,
                }
                for turn in self.turns
            ],
        }


def limit_in_words(limit: BatchLimit | None, batch: int) -> str:
    """Returns how many machines are worth it if each adds a batch to a step."""
    if limit is None:
        return "The batch limit is unknown: more machines may train no sooner."
    if limit.beyond == float("inf"):
        return "No batch limit is in sight: larger batches of more machines help."
    most = max(1, int(limit.beyond / batch))
    return (
        f"Larger batches bring nothing beyond the batch limit, {limit.beyond:.0f} "
        f"samples in a step: with {batch} on each, no step is saved by more than "
        f"{units.amount(most, 'machine')}."
    )
