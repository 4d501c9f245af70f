"""Padded batches of many clients, for contenders that compute them together."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.simulation.peers.problem import (
    Course,
    Integers,
    Problem,
    Weights,
    draw_cohort,
    shuffles,
)


class Stack(Protocol):
    """Trains a cohort at once."""

    def train_round(self, cohort: Integers, orders: Integers) -> None:
        """One round of FedAvg over a cohort that is sorted by size."""

    def weights(self) -> Weights:
        """The model."""


def run(make: Callable[[Problem], Stack]) -> None:
    """Runs all rounds."""
    course = Course()
    problem, rng = course.problem, np.random.default_rng(0)
    stack = make(problem)
    for number in range(1, course.rounds + 1):
        cohort = by_size(problem, draw_cohort(problem, rng))
        stack.train_round(cohort, shuffles(problem.sizes[cohort], rng))
        course.finished(number, stack.weights)
    course.save()


class Step(NamedTuple):
    """A batch of every client that takes this step: of the first N of the cohort."""

    rows: Integers  # (N, B) of the data; what is beyond a client's samples is padding
    weights: npt.NDArray[np.float32]  # (N, B), 1 / samples of the batch, 0 in padding


def by_size(problem: Problem, cohort: Integers) -> Integers:
    """The cohort, largest first, so that those who take a step are the first ones."""
    order: Integers = cohort[np.argsort(-problem.sizes[cohort], kind="stable")]
    return order


def steps(problem: Problem, cohort: Integers, orders: Integers) -> Iterator[Step]:
    """One pass of each client over its data, in the order that it was shuffled to."""
    sizes = problem.sizes[cohort]
    own = np.minimum(orders, sizes[:, None] - 1)  # padding repeats a sample
    rows = problem.rows[problem.bounds[cohort][:, None] + own]
    for start in range(0, int(sizes[0]), problem.batch):
        n = int(np.searchsorted(-sizes, -start))  # with more samples than start
        batch = rows[:n, start : start + problem.batch]
        left = sizes[:n, None] - start
        there = np.arange(batch.shape[1]) < left
        weights = there / np.minimum(left, problem.batch)
        yield Step(batch, weights.astype(np.float32))
