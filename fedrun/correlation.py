"""The correlation of two series of values."""

import math
from collections.abc import Sequence

import numpy as np


def pearson(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns Pearson's correlation; NaN of equal values, or of fewer than two."""
    if len(one) < 2 or min(np.ptp(one), np.ptp(other)) == 0:
        return math.nan
    return float(np.corrcoef(one, other)[0, 1])


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns the correlation of the ranks; equal values share their mean rank."""
    return pearson(_ranks(one), _ranks(other))


def _ranks(values: Sequence[float]) -> list[float]:
    found = np.asarray(values)
    below = (found[:, None] > found).sum(axis=1)
    equal = (found[:, None] == found).sum(axis=1)
    ranks: list[float] = (below + (equal - 1) / 2).tolist()
    return ranks
