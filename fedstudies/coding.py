"""``fedsim coding``: what codes gain for the workers of one silo."""

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field
from rich.console import Console

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
from fedrun.units import amount, in_bytes
from fedstudies.curves import draw_line, figure_of
from fedstudies.frame import (
    Findings,
    Option,
    Outcome,
    Part,
    Phase,
    Progress,
    Steps,
    Study,
)
from fedstudies.functions import function_of
from fedstudies.tables import Cells
from fedview.report import theme

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST = 1000  # workers
_MOST_DRAWS = 100_000_000  # delays in memory at a time: 0.8 GB
_STEEPEST = 1e9  # rate of straggling; beyond it, delays are lost in rounding
_DEMONSTRATED = 6  # workers of the shuffle that is carried out
_ROWS, _WIDTH = 240, 64  # of that shuffle, per worker, and bytes of a row
_CACHES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
WARNING = (
    "All of this replicates raw data among the workers of one silo. It is never done "
    "across clients, whose data stay where they are."
)
_TIMES = (
    "The whole work takes an undisturbed worker the time 1. Each worker takes its "
    "share of it, and an exponential delay that is proportional to the share. The "
    "lines are exact means, the points means of draws. Gradient coding is sooner where "
    "s + 1 divides the number of workers: then one worker of each group is enough."
)
_SHUFFLES = (
    "Before every pass each worker gets fresh rows. One broadcast can serve several "
    "workers that keep each other's rows. This moves raw data, and no training of this "
    "platform does it: the table says what it would save inside a cluster. Coded rows "
    "are counted by a formula that is asymptotic in their number, and the last column "
    "is asymptotic in the number of workers, too."
)
_COLOURS = {
    "MDS": theme.BLUE,
    "gradient coding": theme.GREEN,
    "replication": theme.ORANGE,
}


class Coding(Study["Codes"]):
    """Tell how much sooner coded workers of one silo are done.

    Compares uncoded, replicated, MDS-coded and gradient-coded workers, by formula and
    drawn, and says what coded shuffling would save. All of it is about the workers of
    one client; data are never replicated across clients.

    Returns:
        ``rows`` with the time by formula and drawn, ``best`` of each method, and what
        coded ``shuffles`` save; ``verdict`` says who is fastest.

    Raises:
        ConfigError: a number is out of its range.
    """

    workers: Annotated[int, Option("N")]
    """The number of workers."""
    _: KW_ONLY
    straggling: float = 1.0
    """The rate μ of a worker's exponential delay: its mean is 1/μ of what the worker
    computes."""
    multicast_gain: float | None = None
    """By how much one message to all workers is cheaper than one to each. Without it,
    as many times as there are workers."""
    trials: int = 20_000
    """How often each way is drawn."""
    seed: Annotated[int, Field(ge=0)] = 0
    """The seed of the draws."""

    examples: ClassVar = ("--workers 10", "--workers 50 --straggling 0.5 --json")

    def validate(self) -> None:
        """Checks the ranges of all numbers."""
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
        if not 1 <= self.gain <= self.workers:
            raise ConfigError(
                f"a multicast gain of {self.gain:g} among {self.workers} workers: "
                f"expected 1 to {self.workers}"
            )

    def usual_folder(self) -> Path:
        """Returns a folder where the command is typed."""
        return Path("coding")

    @property
    def gain(self) -> float:
        """γ."""
        return self.workers if self.multicast_gain is None else self.multicast_gain

    @property
    def steps(self) -> int:
        """The number of ways to share out the work."""
        return 2 * self.workers + sum(1 for _ in self._copies())

    def perform(self, console: Console) -> Steps["Codes"]:
        """Computes all ways, one after the other, and then the shuffles."""
        codes = Codes(self)
        yield Phase("ways", self.steps)
        for row in self._rows():
            codes.rows.append(row)
            yield Progress(1, f"{row.method} {row.setting}")
        if self.workers > 1:
            codes.shuffles += self._shuffles()
            codes.demonstration = self._demonstrate()
        return codes

    def _copies(self) -> Iterator[int]:
        return (r for r in range(2, self.workers + 1) if self.workers % r == 0)

    def _rows(self) -> Iterator["Row"]:
        n, rate = self.workers, self.straggling
        yield self._row("uncoded", "", 0, 1 / n, uncoded_seconds(n, rate))
        for r in self._copies():
            seconds = replicated_seconds(n, r, rate)
            yield self._row("replication", f"r = {r}", r, r / n, seconds)
        for k in range(1, n + 1):
            yield self._row("MDS", f"k = {k}", k, 1 / k, mds_seconds(n, k, rate))
        for s in range(1, n):
            seconds = coded_gradient_seconds(n, s, usual_kind(n, s), rate)
            yield self._row("gradient coding", f"s = {s}", s, (s + 1) / n, seconds)

    def _row(
        self, method: str, setting: str, number: int, share: float, formula: float
    ) -> "Row":
        key = Key.root(self.seed).fold_in("coding", method, number)
        seconds_TW = worker_seconds(
            self.workers, share, self.straggling, self.trials, key
        )
        drawn_T = self._ready(seconds_TW, method, number)
        error = float(drawn_T.std(ddof=1)) / math.sqrt(self.trials)
        return Row(
            method, setting, number, share, formula, float(drawn_T.mean()), error
        )

    def _ready(self, seconds_TW: Floats, method: str, number: int) -> Floats:
        match method:
            case "uncoded":
                return kth_fastest(seconds_TW, self.workers)
            case "MDS":
                return kth_fastest(seconds_TW, number)
            case "replication":
                return sum_ready(seconds_TW, "fractional_repetition", number - 1)
        return sum_ready(seconds_TW, usual_kind(self.workers, number), number)

    def _shuffles(self) -> Iterator["Shuffle"]:
        n = self.workers
        for cached in sorted({max(c, 1 / n) for c in _CACHES}):
            rates = mean_rates(n, cached)
            yield Shuffle(cached, *rates, saving(n, cached, self.gain))

    def _demonstrate(self) -> "Demonstration":
        few = min(self.workers, _DEMONSTRATED)
        key = Key.root(self.seed).fold_in("coded shuffling")
        drawn = key.generator().integers(0, 256, (few * _ROWS, _WIDTH))
        data, cached = drawn.astype(np.uint8), 0.5
        done = shuffle_coded(data, few, cached, key.fold_in("shuffle"))
        wrong = sum(
            int((got != data[needed]).any(axis=1).sum())
            for needed, got in zip(done.needed, done.decoded, strict=True)
        )
        return Demonstration(
            few,
            cached,
            done.uncoded_nbytes,
            done.coded_nbytes,
            mean_rates(few, max(cached, 1 / few))[1] * data.nbytes,
            wrong,
        )


coding = function_of(Coding)


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
    """The saving of coded shuffling with caches of one size."""

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


@dataclass
class Codes(Outcome):
    """The gain of codes for n workers."""

    study: Coding
    rows: list[Row] = field(default_factory=list)
    shuffles: list[Shuffle] = field(default_factory=list)
    demonstration: Demonstration | None = None

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
        """The workers, the delays and the trials, in a line."""
        workers = amount(self.study.workers, "worker")
        return (
            f"{workers}, straggling rate {self.study.straggling:g}, "
            f"{self.study.trials:,} trials each; one undisturbed worker takes the time "
            "1 for all of the work"
        )

    @property
    def verdict(self) -> str:
        """The fastest way, without a capital and a full stop.

        The times are exact means for the modelled delays; means of draws, with their
        95 % intervals, stand beside them.
        """
        n, uncoded = self.study.workers, self.uncoded
        k = best_split(n, self.study.straggling)
        if k == n:
            words = f"no MDS code is sooner than no code, which takes {_took(uncoded)}"
        else:
            (fastest,) = [row for row in self.of("MDS") if row.number == k]
            words = (
                f"an MDS code that waits for {k} of {amount(n, 'worker')} "
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
            "workers": self.study.workers,
            "straggling": self.study.straggling,
            "multicast_gain": self.study.gain,
            "trials": self.study.trials,
            "seed": self.study.seed,
            "best_k": best_split(self.study.workers, self.study.straggling),
            "largest_error": self.largest_error,
            "rows": [row._asdict() for row in self.rows],
            "coded_shuffling": [row._asdict() for row in self.shuffles],
            "demonstration": None if shown is None else shown._asdict(),
            "verdict": self.verdict,
        }

    def findings(self) -> Findings:
        """Returns the fastest way of each method, and what coded shuffling saves."""
        figure = "time by the number of answers or stragglers"
        parts = [
            Part(
                "Time",
                _TIMES,
                time_cells(self, every=False),
                time_cells(self, every=True),
                [(figure, lambda: time_figure(self))],
                anchor="times",
                heading=self.heading,
            )
        ]
        if self.demonstration is not None:
            gain = f"Coded shuffling, multicast gain {self.study.gain:g}"
            parts.append(
                Part(
                    "Coded shuffling",
                    _SHUFFLES,
                    shuffle_cells(self),
                    notes=[describe_shuffle(self.demonstration)],
                    anchor="shuffling",
                    heading=gain,
                )
            )
        return Findings(
            title=f"Codes for {self.study.workers} workers of one silo",
            heading=self.heading,
            verdict=self.verdict,
            numbers=self.as_json(),
            parts=parts,
            doubts=[WARNING],
        )


def _took(row: Row) -> str:
    return f"{row.formula:.4g} ({row.drawn:.4g} ± {1.96 * row.error:.1g} drawn)"


def time_cells(codes: "Codes", *, every: bool) -> Cells:
    """Returns a row for each way to share out the work.

    Args:
        codes: the rows.
        every: whether all are shown, and not only the fastest of each method.
    """
    uncoded = codes.uncoded.formula
    rows = [
        (
            row.method,
            row.setting or "–",
            f"{row.share:.3f}",
            f"{row.formula:.4f}",
            f"{row.drawn:.4f} ± {1.96 * row.error:.4f}",
            f"{uncoded / row.formula:.2f}",
        )
        for row in (codes.rows if every else codes.best)
    ]
    head = ["method", "setting", "work each", "time", "drawn", "times as fast"]
    return Cells(head, rows, "  rrnr")


def shuffle_cells(codes: "Codes") -> Cells:
    """Returns a row for each size of the workers' caches."""
    rows = [
        (
            f"{row.cached:.3g}",
            f"{row.uncoded:.3f}",
            f"{row.coded:.3f}",
            f"{row.saving:.2f}",
            f"{(row.cached + 1 / codes.study.workers) * codes.study.gain:.2f}",
        )
        for row in codes.shuffles
    ]
    head = [
        "cached α",
        "uncoded rows",
        "coded, many rows",
        "times cheaper",
        "for many workers, (α + 1/n) γ",
    ]
    return Cells(head, rows, "rrrrr")


def describe_shuffle(shown: Demonstration) -> str:
    """Returns what the shuffle of real bytes showed, as a sentence."""
    return (
        f"A shuffle of real bytes among {shown.workers} workers that keep "
        f"{shown.cached:g} of all rows: {in_bytes(shown.uncoded_nbytes)} one by one, "
        f"{in_bytes(shown.coded_nbytes)} as coded broadcasts, where the formula, "
        f"asymptotic in the number of rows, says {in_bytes(shown.formula_nbytes)}; "
        f"{shown.wrong_rows} rows were decoded wrongly."
    )


def time_figure(codes: "Codes") -> "Figure":
    """Draws the time of each method over k, r or s."""
    traces = []
    for method, colour in _COLOURS.items():
        rows = codes.of(method)
        if not rows:
            continue
        letter, numbers = rows[0].setting[0], [row.number for row in rows]
        hover = f"{method}, {letter} = %{{x}}: %{{y:.4f}}"
        more: dict[str, Any] = {"legendgroup": method}
        exact = [row.formula for row in rows]
        name = f"{method}, by {letter}"
        traces.append(draw_line(name, numbers, exact, hover, colour, **more))
        more |= {"mode": "markers", "marker": {"color": colour, "size": 6}}
        more["showlegend"], drawn = False, [row.drawn for row in rows]
        name, hover = f"{method}, drawn", f"{hover} drawn"
        traces.append(draw_line(name, numbers, drawn, hover, colour, **more))
    figure = figure_of(traces, "k, r or s", "time", 380)
    figure.add_hline(
        y=codes.uncoded.formula,
        line={"dash": "dot", "width": 1.5, "color": theme.GREY},
        annotation_text="without a code",
    )
    figure.update_yaxes(range=[0, 3 * codes.uncoded.formula])
    return figure
