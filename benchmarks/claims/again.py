"""One saved seed of a claim, run again: does it still come to what was saved?"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.claims.report import Report
from fedcore.typing import JSON, Seconds

MOST_SECONDS: Seconds = 25.0  # of a seed, for a claim that is run again
_FAR = 2.0  # times as far as the saved seeds are apart


class Value(NamedTuple):
    """A quantity of one seed, as it was saved and as it is today."""

    place: str
    saved: float
    today: float
    apart: float
    """The difference of the largest and the smallest one of the saved seeds."""

    @property
    def is_the_same(self) -> bool:
        """Whether they differ by no more than rounding."""
        return math.isclose(self.saved, self.today, rel_tol=1e-5, abs_tol=2e-6)

    @property
    def is_far(self) -> bool:
        """Whether they differ by much more than seeds do; never if one diverged."""
        return not self.is_the_same and (
            abs(self.today - self.saved) > _FAR * self.apart
        )


def is_short(saved: JSON) -> bool:
    """Returns whether a saved claim was run in full, and a seed of it takes seconds."""
    seconds: float = saved["seconds"] / len(saved["seeds"])
    return not saved["quick"] and seconds <= MOST_SECONDS


def values(report: Report, saved: JSON) -> Iterator[Value]:
    """Yields what a report of the first saved seed came to, beside what was saved.

    Quantities that are not one for each seed, or are times, are left out.

    Args:
        report: of one seed, the first of those that were saved.
        saved: the claim in ``results/claims.json``.
    """
    known = {table["title"]: table["rows"] for table in saved["tables"]}
    for table in report.tables:
        if table.is_timed:
            continue
        for row, cells in table.rows.items():
            before = known.get(table.title, {}).get(row, {})
            for column, cell in zip(table.columns, cells, strict=True):
                series = before.get(column, {}).get("values", ())
                if len(cell.values) == 1 and len(series) == len(saved["seeds"]):
                    place = f"{table.title}, {row}, {column}"
                    (today,), apart = cell.values, max(series) - min(series)
                    yield Value(place, series[0], float(today), apart)
