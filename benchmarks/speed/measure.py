"""Measurements that survive a noisy machine: in turn, repeated, and as ratios.

The compared functions run alternately within one process, forwards and then backwards,
so that a slow minute affects both sides. A ratio is taken within each round, and
reported as its median with the lowest and highest. Seconds are for orientation only.
"""

import gc
import os
import platform
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median
from typing import NamedTuple

from fedcore.typing import JSON, Seconds

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to measure, or whether it is only tried out."""

    repetitions: int = 7
    quick: bool = False

    @property
    def rounds(self) -> int:
        """How often everything is measured."""
        return self.of(self.repetitions, 1)

    def of(self, full: int, quick: int) -> int:
        """A number of updates, records or values."""
        return quick if self.quick else full


class Figure(NamedTuple):
    """One quantity, a value for each round."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        """The value in the middle."""
        return median(self.values)

    def __str__(self) -> str:
        """The median."""
        return _short(self.median)

    @property
    def spread(self) -> str:
        """The lowest and the highest value; nothing where all are the same."""
        low, high = min(self.values), max(self.values)
        return f"{_short(low)} to {_short(high)}" if low < high else ""

    def times(self, factor: float) -> "Figure":
        """The same in another unit."""
        return Figure([value * factor for value in self.values])

    def over(self, other: "Figure") -> "Figure":
        """The ratio to what was measured in the same rounds."""
        pairs = zip(self.values, other.values, strict=True)
        return Figure([mine / theirs for mine, theirs in pairs])

    def rate(self, count: float) -> "Figure":
        """So many things a second, if these are the seconds that they took."""
        return Figure([count / value for value in self.values])


def _short(value: float) -> str:
    if not value:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def in_turn(works: Mapping[str, Work], rounds: int) -> dict[str, Figure]:
    """The seconds that each takes; a first round warms up, and does not count.

    A work that returns a number has measured itself, and is believed.
    """
    found: dict[str, list[Seconds]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name in list(works)[:: 1 if number % 2 else -1]:
            seconds = seconds_of(works[name])
            if number:
                found[name].append(seconds)
    return {name: Figure(values) for name, values in found.items()}


def seconds_of(work: Work) -> Seconds:
    """How long it takes, or says that it took."""
    gc.collect()
    began = time.perf_counter()
    told = work()
    return told if isinstance(told, float) else time.perf_counter() - began


def peak_megabytes(work: Work) -> float:
    """What a work allocates at its peak; not timed, since watching slows it down."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def machine() -> JSON:
    """What the numbers depend on; the load is that of the last minute."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "grpcio", "protobuf")},
    }
