"""Measures how a federation's speed grows with its workers: strong and weak scaling.

Amdahl, "Validity of the single processor approach to achieving large scale computing
capabilities", AFIPS 1967; Gustafson, "Reevaluating Amdahl's Law", CACM 31(5), 1988;
Karp, Flatt, "Measuring Parallel Processor Performance", CACM 33(5), 1990.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fedcore.errors import ConfigError
from fedcore.typing import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The speedup of each number of workers; the fewest workers are the reference.

    Without a time of one worker, speed-ups are relative: T(m) / T(n) · m for the fewest
    workers m, as if the step from one to m were perfect.
    """

    workers: tuple[int, ...]
    strong: tuple[Seconds, ...]
    """T(n) for a fixed total work."""
    weak: tuple[Seconds, ...]
    """T(n) for a fixed work of each worker."""

    @property
    def speedups(self) -> list[float]:
        """S(n) = T(1) / T(n) at fixed total work."""
        return speedups(dict(zip(self.workers, self.strong, strict=True)))

    @property
    def efficiencies(self) -> list[float]:
        """T(1) / T(n) at fixed work of each worker."""
        return [self.weak[0] / seconds for seconds in self.weak]

    @property
    def serial_share(self) -> float:
        """The serial share that fits Amdahl's law best."""
        return amdahl_share(dict(zip(self.workers, self.speedups, strict=True)))

    @property
    def karp_flatt(self) -> list[float | None]:
        """The serial share that each speed-up alone implies; None for one worker."""
        pairs = zip(self.workers, self.speedups, strict=True)
        return [karp_flatt(s, n) if n > 1 else None for n, s in pairs]

    @property
    def scaled_speedups(self) -> list[float]:
        """Gustafson's speed-up: n · T(1) / T(n) at fixed work of each worker."""
        pairs = zip(self.workers, self.efficiencies, strict=True)
        return [n * efficiency for n, efficiency in pairs]


def scaling(strong: Mapping[int, Seconds], weak: Mapping[int, Seconds]) -> Scaling:
    """Makes the report from times by number of workers.

    Args:
        strong: seconds for the same total work.
        weak: seconds for the same work of each worker.

    Raises:
        ConfigError: there is no time, one is not above 0, or the two do not name the
            same numbers of workers.
    """
    if not strong or strong.keys() != weak.keys():
        raise ConfigError("scaling: expected times for the same numbers of workers")
    for n, seconds in [*strong.items(), *weak.items()]:
        if n < 1 or not seconds > 0:
            raise ConfigError(
                f"scaling: expected seconds above 0 for 1 worker or more, got "
                f"{seconds:g} s for {n}"
            )
    workers = tuple(sorted(strong))
    return Scaling(
        workers=workers,
        strong=tuple(strong[n] for n in workers),
        weak=tuple(weak[n] for n in workers),
    )


def speedups(seconds: Mapping[int, Seconds]) -> list[float]:
    """Returns S(n) = T(1) / T(n), by growing n; the fewest workers stand for 1."""
    fewest = min(seconds)
    return [fewest * seconds[fewest] / seconds[n] for n in sorted(seconds)]


def amdahl(serial: float, workers: int) -> float:
    """Returns Amdahl's speed-up 1 / (s + (1 - s) / n)."""
    return 1 / (serial + (1 - serial) / workers)


def karp_flatt(speedup: float, workers: int) -> float:
    """Returns the experimentally determined serial share (1 / S - 1 / n) / (1 - 1 / n).

    It is constant where Amdahl's law holds, and grows with n where the overhead does.
    """
    return (1 / speedup - 1 / workers) / (1 - 1 / workers)


def amdahl_share(speedups: Mapping[int, float]) -> float:
    """Returns the serial share s in [0, 1] that fits 1 / S(n) = s + (1 - s) / n best.

    Least squares of 1 / S(n), which is linear in s, so that the fit has one answer.
    """
    above = gap = 0.0
    for n, speedup in speedups.items():
        parallel = 1 - 1 / n
        above += (1 / speedup - 1 / n) * parallel
        gap += parallel * parallel
    return min(1.0, max(0.0, above / gap)) if gap else 0.0


def best_workers(seconds: Mapping[int, Seconds]) -> int:
    """Returns the fewest workers that take the least time."""
    return min(seconds, key=lambda n: (seconds[n], n))
