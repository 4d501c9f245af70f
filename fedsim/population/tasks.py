"""How long recorded tasks took, step by step."""

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np

from fedcore.distributions import Floats
from fedcore.typing import Indices, Seconds


class RecordedTasks:
    """The k-th task of a client takes as long as it did; after the last the first.

    Args:
        seconds: of each client, what a step took in each of its tasks.
        step_N: what a step takes of a client that has no tasks.
    """

    def __init__(self, seconds: Sequence[Sequence[Seconds]], step_N: Floats) -> None:
        rows = [row or [step_N[who]] for who, row in enumerate(seconds)]
        self._count = [len(row) for row in rows]
        self._first = [0, *accumulate(self._count)][:-1]
        self._seconds = list(map(float, chain.from_iterable(rows)))
        self._count_N, self._first_N = np.array(self._count), np.array(self._first)
        self._seconds_T = np.array(self._seconds)

    def one(self, who: int, task: int) -> Seconds:
        """What a step of this client's task takes."""
        return self._seconds[self._first[who] + (task - 1) % self._count[who]]

    def many(self, who_K: Indices, task_K: Indices) -> Floats:
        """The same for many tasks at once."""
        place_K = self._first_N[who_K] + (task_K - 1) % self._count_N[who_K]
        seconds_K: Floats = self._seconds_T[place_K]
        return seconds_K
