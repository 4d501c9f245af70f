"""The slowdown matrix: optimisers and models by staleness."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedcore.typing import JSON
from fedstudies.staleness.slowdown import Row
from fedstudies.statistics import ALPHA, ONE_SEED, estimate, paired
from fedstudies.tables import Cells


@dataclass
class Matrix:
    """All rows of the study, and what they were measured by."""

    app: str
    metric: str
    target: float
    staleness: Sequence[int]
    """The largest delays in iterations; the first one is 0."""
    workers: int
    batch: int
    rows: list[Row] = field(default_factory=list)

    @property
    def heading(self) -> str:
        """What was measured, in a line."""
        return (
            f"{self.app}: iterations to {self.metric} {self.target:g} of "
            f"{self.workers} workers with batches of {self.batch}, with updates up to "
            "s iterations late, divided by those without"
        )

    @property
    def verdict(self) -> str:
        """Who suffers most and least from the longest delays, if that is no chance."""
        last = self.staleness[-1]
        known = [
            row for row in self.rows if row.is_reached(0) and len(row.slowdowns(last))
        ]
        if not known or not last:
            return "nothing was slowed down: no run with late updates is comparable"
        in_order = sorted(known, key=lambda row: float(row.slowdowns(last).mean()))
        least, most = in_order[0], in_order[-1]
        if most is least:
            found = estimate(most.slowdowns(last).tolist())
            is_clear = found.half is not None and abs(found.mean - 1) > found.half
            said = f"with s = {last} {most.name} takes {self.cell(most, last)} times"
            return f"{said} as long{'' if is_clear else ', which may be chance'}"
        said = (
            f"({self.cell(most, last)} times as long), {least.name} least "
            f"({self.cell(least, last)} times)"
        )
        p = paired(most.by_seed(last), least.by_seed(last)).p
        if p is not None:
            p = min(1.0, p * math.comb(len(known), 2))  # any two might have been these
        shown, who = (
            "" if p is None else f" (p = {p:.2g})",
            f"with s = {last} {most.name}",
        )
        if p is not None and p < ALPHA:
            return f"{who} suffers most {said}, more than chance{shown}"
        return f"{who} seems to suffer most {said}, which may be chance{shown}"

    @property
    def doubts(self) -> list[str]:
        """What should be known before the result is used."""
        found = []
        never = [row.name for row in self.rows if not row.is_reached(0)]
        if never:
            found.append(
                f"Even without staleness {', '.join(never)} did not always reach the "
                "target; choose another lr (--optimizer NAME:lr=...), a lower --target "
                "or more iterations (--most)."
            )
        if any(
            row.is_reached(0) and not row.is_reached(late)
            for row in self.rows
            for late in self.staleness
        ):
            found.append(
                "Slowdowns with ≥ are lower bounds: a run was given up before the "
                "target (--most)."
            )
        if len({seed for row in self.rows for _, seed in row.courses}) == 1:
            found.append(ONE_SEED)
        return found

    def drop_unfinished(self) -> None:
        """Leaves out rows without a run that the others could be compared with."""
        self.rows = [row for row in self.rows if row.iterations(0)]

    def cells(self) -> Cells:
        """The iterations without staleness, and the slowdowns."""
        late = self.staleness[1:]
        head = ["optimizer", "iterations, s = 0", *(f"s = {s}" for s in late)]
        rows = [
            [row.name, _mean(row), *(self.cell(row, s) for s in late)]
            for row in self.rows
        ]
        return Cells(head, rows, " " + "n" * (len(head) - 1))

    @staticmethod
    def cell(row: Row, late: int) -> str:
        """A slowdown in words, such as ``1.40 ± 0.2``; ``≥`` where it is a bound."""
        found = estimate(row.slowdowns(late).tolist())
        if not found.size or not row.is_reached(0):
            return "–"
        bound = "" if row.is_reached(late) else "≥ "
        around = f" ± {found.half:.2g}" if found.half else ""
        return f"{bound}{found.mean:.2f}{around}"

    def as_json(self) -> JSON:
        """All iterations, slowdowns and coherences as plain data."""
        rows = [
            {
                "name": row.name,
                "runs": [
                    {
                        "staleness": late,
                        "seed": seed,
                        "iterations": course.iterations,
                        "coherence": course.coherence_T.tolist(),
                    }
                    for (late, seed), course in row.courses.items()
                ],
                "slowdowns": {
                    str(late): row.slowdowns(late).tolist() for late in self.staleness
                },
                "most": row.most,
            }
            for row in self.rows
        ]
        return {
            "app": self.app,
            "verdict": self.verdict,
            "metric": self.metric,
            "target": self.target,
            "workers": self.workers,
            "batch": self.batch,
            "rows": rows,
        }


def _mean(row: Row) -> str:
    mean = estimate([float(count) for count in row.iterations(0)]).mean
    return f"{'' if row.is_reached(0) else '≥ '}{mean:,.0f}"
