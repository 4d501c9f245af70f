"""The slowdown of one optimiser on one model, by staleness: a row of the matrix."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedstudies.staleness.training import (
    Course,
    Floats,
    Optimizer,
    Problem,
    slowdown,
    train,
)


@dataclass(frozen=True)
class Row:
    """The runs of one optimiser on one model."""

    name: str
    most: int
    """Iterations at which a run is given up."""
    courses: dict[tuple[int, int], Course] = field(default_factory=dict)
    """What came of each run, by its largest delay in iterations and its seed."""

    def fill(
        self,
        problem: Callable[[int], Problem],
        optimizer: Optimizer,
        staleness: Sequence[int],
        seeds: Sequence[int],
        **how: Any,
    ) -> Iterator[tuple[int, int]]:
        """Trains, and yields the staleness and the seed of each run that has ended.

        Args:
            problem: of each seed.
            optimizer: of every worker.
            staleness: the largest delays to try.
            seeds: of weights, batches and delays.
            how: what else :func:`train` takes.
        """
        for late in staleness:
            for seed in seeds:
                self.courses[late, seed] = train(
                    problem(seed), optimizer, late, seed=seed, most=self.most, **how
                )
                yield late, seed

    def iterations(self, late: int) -> list[int]:
        """Returns the iterations to the target by seed; ``most`` if it was missed."""
        return [course.iterations or self.most for course in self._of(late)]

    def slowdowns(self, late: int) -> Floats:
        """Returns how many times the iterations of s = 0 were needed, by seed."""
        return np.array([*self.by_seed(late).values()], np.float64)

    def by_seed(self, late: int) -> dict[int, float]:
        """Returns the same, with the seeds for which both runs have ended."""
        both = [s for t, s in self.courses if t == late and (0, s) in self.courses]
        with_, without = (
            [self.courses[t, s].iterations or self.most for s in both]
            for t in (late, 0)
        )
        return dict(zip(both, slowdown(with_, without).tolist(), strict=True))

    def is_reached(self, late: int) -> bool:
        """Returns whether all seeds reached the target; if not, slowdowns are bounds.

        Nothing is known where the target was not reached without staleness either.
        """
        return all(course.iterations is not None for course in self._of(late))

    def coherence(self, late: int) -> Floats:
        """Returns the mean μ over the seeds, (T,), as far as all were trained."""
        curves = [course.coherence_T for course in self._of(late)]
        common = min(map(len, curves), default=0)
        if not common:
            return np.empty(0)
        mean_T: Floats = np.mean([curve[:common] for curve in curves], axis=0)
        return mean_T

    def _of(self, late: int) -> list[Course]:
        return [course for (t, _), course in self.courses.items() if t == late]
