"""Reads the batches of local steps, those of a step when it is taken."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from fedcore.evaluation import EVALUATION_BATCH, evaluation_batches, nbytes_of
from fedcore.labels import count_labels, sum_counts
from fedcore.samples.base import ArraySamples, Samples, Wanted
from fedcore.samples.subset import Subset
from fedcore.typing import Counts

FIRST = 32  # samples of an evaluation's first batch
ROOM = 64 << 20  # bytes of its other batches


def is_in_memory(samples: Samples) -> bool:
    """Returns whether samples are arrays, whose rows are there without reading."""
    return isinstance(samples, ArraySamples | Subset)


def read(wanted: Sequence[Wanted]) -> Iterator[tuple[Any, Any]]:
    """Yields batches in their order; reads ahead where a data set does so.

    Raises:
        UserCodeError: a data set, or what makes batches of it, raised.
    """
    ahead = (getattr(samples, "ahead", None) for samples, _ in wanted)
    read_ahead = next(filter(None, ahead), None)
    if read_ahead is not None:
        yield from read_ahead(wanted)
        return
    for samples, rows in wanted:
        yield samples.batch(rows)


def evaluation_data(samples: Samples) -> Iterator[tuple[Any, Any]]:
    """Yields all samples in order, a batch at a time.

    Of a data set that is read sample by sample, the first :data:`FIRST` tell how many
    fit into a batch.

    Raises:
        UserCodeError: the data set, or what makes batches of it, raised.
    """
    count = len(samples)
    if is_in_memory(samples):
        yield from map(samples.batch, evaluation_batches(count))
        return
    first = samples.batch(np.arange(min(FIRST, count)))
    each = max(1, nbytes_of(first) // FIRST)
    yield first
    batch = min(EVALUATION_BATCH, max(1, ROOM // each))
    yield from read([(samples, r) for r in evaluation_batches(count, batch, FIRST)])


class LabelsSeen:
    """Counts each class among the targets of each client."""

    def __init__(self, clients: int) -> None:
        self._counts: list[Counts | None] = [np.zeros(0, np.int64)] * clients

    def add(self, place: int, y: Any) -> None:
        """Counts the targets of a batch; those that are no labels end the counting."""
        known, self._counts[place] = self._counts[place], None
        if known is not None and getattr(y, "ndim", 0) == 1:
            found = count_labels(y, np.arange(len(y)))
            self._counts[place] = None if found is None else sum_counts(known, found)

    def of(self, place: int) -> Counts | None:
        """Returns the counts of a client; None: there were no labels."""
        known = self._counts[place]
        return None if known is None or not len(known) else known


class Reading:
    """The batches of one client's steps, or of a stack's, and the labels in them."""

    def __init__(self, plan: Sequence[Sequence[Wanted]]) -> None:
        """Reads nothing yet.

        Args:
            plan: the batches of each step: of one client, or of those that take it,
                which are the first ones of a stack.
        """
        self._plan = plan
        self._next = self._counted = 0
        self._batches: Iterator[tuple[Any, Any]] = iter(())
        self.labels = LabelsSeen(len(plan[0]) if plan else 0)

    def of(self, step: int) -> Iterator[tuple[Any, Any]]:
        """Yields the batches of a step; all of them are to be taken.

        Steps follow one another; another one than the next begins the reading anew.

        Raises:
            UserCodeError: a data set, or what makes batches of it, raised.
        """
        if step != self._next or not step:
            self._batches = read([*chain.from_iterable(self._plan[step:])])
        self._next = step + 1
        is_new, self._counted = step == self._counted, max(step + 1, self._counted)
        for place in range(len(self._plan[step])):
            x, y = next(self._batches)
            if is_new:
                self.labels.add(place, y)
            yield x, y
