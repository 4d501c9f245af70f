"""How long coded and uncoded workers take: by formula, and drawn."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fedcore.coding import (
    best_split,
    coded_gradient_seconds,
    kth_fastest,
    mds_seconds,
    mean_rates,
    replicated_seconds,
    saving,
    shuffle_coded,
    sum_ready,
    uncoded_seconds,
    usual_kind,
    worker_seconds,
)
from fedcore.coding.gradient_coding import check_workers
from fedcore.distributions import Floats
from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedcore.typing import JSON
from fedrun.arguments import expect_type
from fedrun.units import amount

_MOST = 1000  # workers
_MOST_DRAWS = 100_000_000  # delays in memory at a time: 0.8 GB
_STEEPEST = 1e9  # rate of straggling; beyond it, delays are lost in rounding
_DEMONSTRATED = 6  # workers of the shuffle that is carried out
_ROWS, _WIDTH = 240, 64  # of that shuffle, per worker, and bytes of a row
_CACHES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


class Row(NamedTuple):
    """One way to share out the work."""

    method: str
    """``uncoded``, ``replication``, ``MDS`` or ``gradient coding``."""
    setting: str
    """Such as ``k = 7``."""
    number: int
    """k, r or s; 0 without a code."""
    share: float
    """Of the whole work that each worker does."""
    formula: float
    """The mean time; the whole work of one undisturbed worker takes 1."""
    drawn: float
    """The mean time over all trials."""
    error: float
    """Its standard error."""


class Shuffle(NamedTuple):
    """What coded shuffling saves with caches of one size."""

    cached: float
    uncoded: float
    """The share of all rows that travels, each to one worker."""
    coded: float
    """The share that is broadcast, for many rows."""
    saving: float
    """How many times cheaper it is, at the given multicast gain and for many rows."""


class Demonstration(NamedTuple):
    """A coded shuffle of real bytes."""

    workers: int
    cached: float
    uncoded_nbytes: int
    coded_nbytes: int
    formula_nbytes: float
    """What the formula for many rows says of ``coded_nbytes``."""
    wrong_rows: int
    """Rows that a worker did not decode to the very bytes; always 0."""


@dataclass(frozen=True, kw_only=True)
class CodingStudy:
    """What codes gain for n workers.

    Args:
        workers: n.
        straggling: μ, the rate of a worker's exponential delay.
        multicast_gain: γ; None: n, as on a network where a broadcast costs no more than
            one message.
        trials: how often each way is drawn.
        seed: of the draws.

    Raises:
        ConfigError: a number is out of its range.
    """

    workers: int
    straggling: float = 1.0
    multicast_gain: float | None = None
    trials: int = 20_000
    seed: int = 0
    rows: list[Row] = field(default_factory=list)
    shuffles: list[Shuffle] = field(default_factory=list)
    demonstration: Demonstration | None = None

    def __post_init__(self) -> None:
        """Checks the numbers."""
        counts = {name: getattr(self, name) for name in ("workers", "trials", "seed")}
        expect_type("a whole number", int, **counts)
        expect_type(
            "a number",
            int,
            float,
            straggling=self.straggling,
            multicast_gain=self.multicast_gain,
        )
        for name, value in {**counts, "straggling": self.straggling}.items():
            if value is None:
                raise ConfigError(f"{name}: expected a number, got None")
        check_workers(self.workers, 0)
        if self.workers > _MOST:
            raise ConfigError(f"{self.workers} workers: expected {_MOST} or fewer")
        if not 1 / _STEEPEST <= self.straggling <= _STEEPEST:
            raise ConfigError(
                f"straggling rate {self.straggling:g}: expected a number from "
                f"{1 / _STEEPEST:g} to {_STEEPEST:g}"
            )
        most = _MOST_DRAWS // self.workers
        if not 2 <= self.trials <= most:
            raise ConfigError(
                f"{self.trials} trials: expected 2 to {most:,} with {self.workers} "
                "workers"
            )
        if self.seed < 0:
            raise ConfigError(f"seed: expected 0 or more, got {self.seed}")
        if not 1 <= self.gain <= self.workers:
            raise ConfigError(
                f"a multicast gain of {self.gain:g} among {self.workers} workers: "
                f"expected 1 to {self.workers}"
            )

    @property
    def gain(self) -> float:
        """γ."""
        return self.workers if self.multicast_gain is None else self.multicast_gain

    @property
    def steps(self) -> int:
        """How many rows :meth:`fill` makes."""
        return 2 * self.workers + sum(1 for _ in self._copies())

    def fill(self) -> Iterator[Row]:
        """Computes all rows, one after the other, and then the shuffles."""
        n, rate = self.workers, self.straggling
        yield self._row("uncoded", "", 0, 1 / n, uncoded_seconds(n, rate), n)
        for copies in self._copies():
            yield self._row(
                "replication",
                f"r = {copies}",
                copies,
                copies / n,
                replicated_seconds(n, copies, rate),
                None,
            )
        for k in range(1, n + 1):
            yield self._row("MDS", f"k = {k}", k, 1 / k, mds_seconds(n, k, rate), k)
        for s in range(1, n):
            seconds = coded_gradient_seconds(n, s, usual_kind(n, s), rate)
            yield self._row(
                "gradient coding", f"s = {s}", s, (s + 1) / n, seconds, None
            )
        if n > 1:
            self._shuffle()

    def _copies(self) -> Iterator[int]:
        return (r for r in range(2, self.workers + 1) if self.workers % r == 0)

    def _row(
        self,
        method: str,
        setting: str,
        number: int,
        share: float,
        formula: float,
        needed: int | None,
    ) -> Row:
        key = Key.root(self.seed).fold_in("coding", method, number)
        seconds_TW = worker_seconds(
            self.workers, share, self.straggling, self.trials, key
        )
        drawn_T = self._ready(seconds_TW, method, number, needed)
        error = float(drawn_T.std(ddof=1)) / math.sqrt(self.trials)
        row = Row(method, setting, number, share, formula, float(drawn_T.mean()), error)
        self.rows.append(row)
        return row

    def _ready(
        self, seconds_TW: Floats, method: str, number: int, needed: int | None
    ) -> Floats:
        if needed is not None:
            return kth_fastest(seconds_TW, needed)
        if method == "replication":
            return sum_ready(seconds_TW, "fractional_repetition", number - 1)
        return sum_ready(seconds_TW, usual_kind(self.workers, number), number)

    def _shuffle(self) -> None:
        n = self.workers
        for cached in sorted({max(c, 1 / n) for c in _CACHES}):
            uncoded, coded = mean_rates(n, cached)
            times = saving(n, cached, self.gain)
            self.shuffles.append(Shuffle(cached, uncoded, coded, times))
        few = min(n, _DEMONSTRATED)
        key = Key.root(self.seed).fold_in("coded shuffling")
        drawn = key.generator().integers(0, 256, (few * _ROWS, _WIDTH))
        data, cached = drawn.astype(np.uint8), 0.5
        done = shuffle_coded(data, few, cached, key.fold_in("shuffle"))
        wrong = sum(
            int((got != data[needed]).any(axis=1).sum())
            for needed, got in zip(done.needed, done.decoded, strict=True)
        )
        object.__setattr__(
            self,
            "demonstration",
            Demonstration(
                few,
                cached,
                done.uncoded_nbytes,
                done.coded_nbytes,
                mean_rates(few, max(cached, 1 / few))[1] * data.nbytes,
                wrong,
            ),
        )

    # --------------------------------------------------------------------- results

    def of(self, method: str) -> list[Row]:
        """Returns the rows of one method."""
        return [row for row in self.rows if row.method == method]

    @property
    def uncoded(self) -> Row:
        """The row without a code."""
        return self.rows[0]

    @property
    def best(self) -> list[Row]:
        """The fastest row of each method, without a code first."""
        return [
            min(self.of(method), key=lambda row: row.formula)
            for method in dict.fromkeys(row.method for row in self.rows)
        ]

    @property
    def largest_error(self) -> float:
        """By how much a drawn mean misses its formula at most, as a share of it."""
        return max(abs(row.drawn / row.formula - 1) for row in self.rows)

    @property
    def heading(self) -> str:
        """How many workers, which delays, how many trials."""
        return (
            f"{amount(self.workers, 'worker')}, straggling rate {self.straggling:g}, "
            f"{self.trials:,} trials each; one undisturbed worker takes the time 1 for "
            "all of the work"
        )

    @property
    def verdict(self) -> str:
        """Who is fastest, without a capital and a full stop.

        The times are exact means for the modelled delays; means of draws, with their
        95 % intervals, stand beside them.
        """
        k, uncoded = best_split(self.workers, self.straggling), self.uncoded
        if k == self.workers:
            words = f"no MDS code is sooner than no code, which takes {_took(uncoded)}"
        else:
            (fastest,) = [row for row in self.of("MDS") if row.number == k]
            words = (
                f"an MDS code that waits for {k} of {amount(self.workers, 'worker')} "
                f"takes {_took(fastest)}, and without a code it takes "
                f"{_took(uncoded)}: {uncoded.formula / fastest.formula:.2f} times as "
                "long"
            )
        coded = self.of("gradient coding")
        if not coded:
            return words
        first = min(coded, key=lambda row: row.formula)
        if first.formula >= uncoded.formula:
            return (
                f"{words}; gradient coding gains nothing here, since its workers "
                "compute each part several times"
            )
        return (
            f"{words}; the fastest gradient code has {first.setting} and takes "
            f"{_took(first)}"
        )

    def as_json(self) -> JSON:
        """Returns all numbers."""
        shown = self.demonstration
        return {
            "workers": self.workers,
            "straggling": self.straggling,
            "multicast_gain": self.gain,
            "trials": self.trials,
            "seed": self.seed,
            "best_k": best_split(self.workers, self.straggling),
            "largest_error": self.largest_error,
            "rows": [row._asdict() for row in self.rows],
            "coded_shuffling": [row._asdict() for row in self.shuffles],
            "demonstration": None if shown is None else shown._asdict(),
            "verdict": self.verdict,
        }


def _took(row: Row) -> str:
    return f"{row.formula:.4g} ({row.drawn:.4g} ± {1.96 * row.error:.1g} drawn)"


def coding(
    workers: int,
    *,
    straggling: float = 1.0,
    multicast_gain: float | None = None,
    trials: int = 20_000,
    seed: int = 0,
) -> CodingStudy:
    """Tells what codes gain for the workers of one silo, as ``fedsim coding`` does.

    Args:
        workers: the number of workers.
        straggling: the rate μ of a worker's exponential delay; the mean delay is 1/μ of
            what it computes.
        multicast_gain: by how much one message to all workers is cheaper than one to
            each; None: as many times as there are workers.
        trials: how often each way is drawn.
        seed: of the draws.

    Returns:
        ``rows`` with the time by formula and drawn, ``best`` of each method, and what
        coded ``shuffles`` save; ``verdict`` says who is fastest.

    Raises:
        ConfigError: a number is out of its range.
    """
    study = CodingStudy(
        workers=workers,
        straggling=straggling,
        multicast_gain=multicast_gain,
        trials=trials,
        seed=seed,
    )
    for _ in study.fill():
        pass
    return study
