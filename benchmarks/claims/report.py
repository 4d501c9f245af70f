"""The result of an experiment: tables, and checks that pass or fail."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from fedcore.typing import JSON
from fedstudies.statistics import student_t


@dataclass(frozen=True, slots=True)
class Scale:
    """How large to run: which seeds, and whether it is only tried out."""

    seeds: tuple[int, ...] = (0, 1, 2)
    quick: bool = False

    def of(self, full: int, quick: int) -> int:
        """A number of rounds or updates."""
        return quick if self.quick else full

    def few(self, seeds: int) -> "Scale":
        """The first seeds only, for what has many rows."""
        return Scale(self.seeds[:seeds], self.quick)


class Cell(NamedTuple):
    """One measured quantity: a value for each seed, and what was expected."""

    values: Sequence[float]
    expected: str = ""
    budget: float | None = None  # a value that large says "not within the budget"

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        """The standard deviation over the seeds; 0 of one."""
        if len(self.values) < 2:
            return 0.0
        with np.errstate(invalid="ignore"):  # a training may have diverged
            return float(np.std(self.values, ddof=1))

    def __str__(self) -> str:
        """Mean and spread; ≥ where a seed did not get there within the budget."""
        censored = self.budget is not None and max(self.values) >= self.budget
        places = 0 if all(float(value).is_integer() for value in self.values) else 3
        mean, spread = (
            f"{number:.{places}f}".replace("0.", ".", abs(number) < 1)
            for number in (self.mean, self.spread)
        )
        return f"{'≥ ' if censored else ''}{mean} ±{spread}"


class Estimate(NamedTuple):
    """A number that the seeds lead to, and its standard error over them."""

    value: float
    error: float
    seeds: int

    @property
    def half(self) -> float:
        """Half the width of its 95 % interval (Student's t); infinite for one seed."""
        return student_t(self.seeds - 1) * self.error if self.seeds > 1 else math.inf


def average(cell: Cell) -> Estimate:
    """The mean of a cell over the seeds."""
    seeds = len(cell.values)
    return Estimate(cell.mean, cell.spread / seeds**0.5, seeds)


def ratio(above: Cell, below: Cell) -> Estimate:
    """The ratio of two means; its error is the jackknife's over the seeds."""
    return _jackknife(above, below, lambda top, bottom: top / bottom)


def difference(one: Cell, other: Cell) -> Estimate:
    """The difference of two means; its error is that of the seeds' differences."""
    return _jackknife(one, other, lambda first, second: first - second)


def _jackknife(one: Cell, other: Cell, of: Callable[[Any, Any], Any]) -> Estimate:
    values = [np.array(cell.values, np.float64) for cell in (one, other)]
    value, count = float(of(*(v.mean() for v in values))), len(values[0])
    if count == 1:
        return Estimate(value, 0.0, 1)
    left_out = of(*((v.sum() - v) / (count - 1) for v in values))
    return Estimate(value, float(left_out.std() * np.sqrt(count - 1)), count)


class Table(NamedTuple):
    """Rows of cells under column names."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Cell]]
    is_timed: bool = False
    """Whether a clock measured them, so that no run repeats them."""


class Verdict(StrEnum):
    """The answer of the seeds to a check or a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    NOT = "does not hold"
    OPEN = "cannot be told"


class Check(NamedTuple):
    """A number beside the bound that the claim sets."""

    text: str
    value: float
    bound: float
    is_above: bool  # the value must reach the bound; else it must not exceed it
    half: float = 0.0  # half the width of the value's 95 % interval
    gates: bool = True  # False: reported, and the claim stands without it
    known: str = ""  # why it is known not to hold (docs/papers.md)

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.value + self.half

    @property
    def verdict(self) -> Verdict:
        """Holds or not if the whole interval lies on one side of the bound.

        A value that is not finite, as of a training that diverged, does not hold.
        """
        if not math.isfinite(self.value):
            return Verdict.NOT
        if self.low >= self.bound if self.is_above else self.high <= self.bound:
            return Verdict.HOLDS
        if self.high < self.bound if self.is_above else self.low > self.bound:
            return Verdict.NOT
        return Verdict.OPEN

    @property
    def sentence(self) -> str:
        """The text, and the bound that the value must reach or not exceed."""
        return f"{self.text} {'>=' if self.is_above else '<='} {self.bound:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The tables and checks of one claim."""

    number: int
    title: str
    source: str
    tables: Sequence[Table] = ()
    checks: Sequence[Check] = ()
    remarks: Sequence[str] = ()

    @property
    def gates(self) -> Sequence[Check]:
        """The checks on which the claim stands."""
        return [check for check in self.checks if check.gates]

    @property
    def verdict(self) -> Verdict:
        """The claim's verdict, of all checks on which it stands."""
        found = {check.verdict for check in self.gates}
        if found <= {Verdict.HOLDS}:
            return Verdict.HOLDS
        if Verdict.NOT not in found:
            return Verdict.OPEN
        return Verdict.IN_PART if Verdict.HOLDS in found else Verdict.NOT

    @property
    def is_as_recorded(self) -> bool:
        """Whether every check that does not hold is known not to."""
        return all(c.known or c.verdict is not Verdict.NOT for c in self.gates)

    def to_json(self) -> JSON:
        """The report with the value of each seed."""
        return {
            "claim": self.number,
            "title": self.title,
            "source": self.source,
            "verdict": self.verdict,
            "tables": [
                {
                    "title": table.title,
                    "rows": {
                        name: {
                            column: {
                                "mean": round(cell.mean, 6),
                                "spread": round(cell.spread, 6),
                                "values": [round(float(v), 6) for v in cell.values],
                                "expected": cell.expected,
                                "budget": cell.budget,
                            }
                            for column, cell in zip(table.columns, cells, strict=True)
                        }
                        for name, cells in table.rows.items()
                    },
                }
                for table in self.tables
            ],
            "checks": [
                {
                    "text": check.sentence,
                    "value": round(check.value, 6),
                    "bound": check.bound,
                    "half_width_95": _known(check.half),
                    "verdict": check.verdict,
                    "gates": check.gates,
                    "known": check.known,
                }
                for check in self.checks
            ],
            "remarks": list(self.remarks),
        }


def _known(half: float) -> float | None:
    return round(half, 6) if math.isfinite(half) else None


def at_least(
    text: str,
    value: float | Estimate,
    bound: float,
    *,
    gates: bool = True,
    known: str = "",
) -> Check:
    """The value must reach the bound."""
    return _check(text, value, bound, is_above=True, gates=gates, known=known)


def at_most(
    text: str,
    value: float | Estimate,
    bound: float,
    *,
    gates: bool = True,
    known: str = "",
) -> Check:
    """The value must not exceed the bound."""
    return _check(text, value, bound, is_above=False, gates=gates, known=known)


def _check(
    text: str,
    value: float | Estimate,
    bound: float,
    *,
    is_above: bool,
    gates: bool,
    known: str,
) -> Check:
    """A number that is no estimate is exact: a count, or the worst of all seeds."""
    if isinstance(value, Estimate):
        number, half = value.value, value.half
    else:
        number, half = float(value), 0.0
    return Check(text, number, bound, is_above, half, gates, known)
