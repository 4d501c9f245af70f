"""The result of an experiment: tables, and checks that pass or fail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedcore.typing import JSON


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
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    def __str__(self) -> str:
        """Mean and spread; ≥ where a seed did not get there within the budget."""
        censored = self.budget is not None and max(self.values) >= self.budget
        places = 0 if all(float(value).is_integer() for value in self.values) else 3
        mean, spread = (
            f"{number:.{places}f}".replace("0.", ".", number < 1)
            for number in (self.mean, self.spread)
        )
        return f"{'≥ ' if censored else ''}{mean} ±{spread}"


class Estimate(NamedTuple):
    """A number that the seeds lead to, and its standard error over them."""

    value: float
    error: float


def average(cell: Cell) -> Estimate:
    """The mean of a cell over the seeds."""
    return Estimate(cell.mean, cell.spread / len(cell.values) ** 0.5)


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
        return Estimate(value, 0.0)
    left_out = of(*((v.sum() - v) / (count - 1) for v in values))
    return Estimate(value, float(left_out.std() * np.sqrt(count - 1)))


class Table(NamedTuple):
    """Rows of cells under column names."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Cell]]


class Check(NamedTuple):
    """Whether a number is what the claim says."""

    text: str
    value: float
    holds: bool
    gates: bool = True  # False: reported, and the claim stands without it
    known: str = ""  # why it is known not to hold (docs/papers.md)
    error: float = 0.0  # standard error of the value; 0: not known
    is_close: bool = False  # misses its bound by less than two standard errors


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
    def passed(self) -> bool:
        """Whether all checks hold on which the claim stands."""
        return all(check.holds for check in self.checks if check.gates)

    @property
    def as_recorded(self) -> bool:
        """Whether what does not hold is known not to, or may miss by chance.

        The last bit of a library leads training elsewhere, as another seed does. So a
        value near its bound may lie on either side of it, by the processor.
        """
        gates = [check for check in self.checks if check.gates]
        return all(check.holds or check.known or check.is_close for check in gates)

    def to_json(self) -> JSON:
        """The report with the value of each seed."""
        return {
            "claim": self.number,
            "title": self.title,
            "source": self.source,
            "passed": self.passed,
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
                    **check._asdict(),
                    "value": round(check.value, 6),
                    "error": round(check.error, 6),
                }
                for check in self.checks
            ],
            "remarks": list(self.remarks),
        }


def at_least(
    text: str,
    value: float | Estimate,
    bound: float,
    *,
    gates: bool = True,
    known: str = "",
) -> Check:
    """The value must reach the bound."""
    number, error = value if isinstance(value, Estimate) else (value, 0.0)
    is_close = number < bound <= number + 2 * error
    text = f"{text} >= {bound:g}"
    return Check(text, number, number >= bound, gates, known, error, is_close)


def at_most(
    text: str,
    value: float | Estimate,
    bound: float,
    *,
    gates: bool = True,
    known: str = "",
) -> Check:
    """The value must not exceed the bound."""
    number, error = value if isinstance(value, Estimate) else (value, 0.0)
    is_close = number - 2 * error <= bound < number
    text = f"{text} <= {bound:g}"
    return Check(text, number, number <= bound, gates, known, error, is_close)
