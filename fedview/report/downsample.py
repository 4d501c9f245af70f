"""Shortens long series, so that the page of any run stays small."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def floats(column: Sequence[Any]) -> Floats:
    """Returns a column as numbers; None becomes NaN."""
    return np.array([np.nan if v is None else v for v in column], np.float64)


def downsample(count: int, most: int) -> npt.NDArray[np.int64]:
    """Returns up to ``most`` evenly spread places of ``count``, with first and last."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))


class Bins(NamedTuple):
    """Consecutive values of a series, put together."""

    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, count: int, most: int) -> "Bins":
        """Returns at most ``most`` bins of about equal size."""
        bins = min(count, most)
        edges = np.linspace(0, count, bins + 1).round().astype(np.int64)
        return cls(edges[:-1], np.diff(edges))

    def mean(self, values: Floats, weights: Floats | None = None) -> Floats:
        """Returns the mean of each bin over its numbers; NaN where it has none."""
        if not len(self.starts):
            return np.empty(0)
        known = np.isfinite(values)
        weights = (
            known.astype(float) if weights is None else np.where(known, weights, 0)
        )
        sums = np.add.reduceat(np.where(known, values, 0.0) * weights, self.starts)
        total = np.add.reduceat(weights, self.starts)
        means = np.full(len(sums), np.nan)
        np.divide(sums, total, out=means, where=total > 0)
        return means

    def quantiles(self, values: Floats, levels: Sequence[float]) -> Floats:
        """Returns quantiles of each bin, shape (levels, bins)."""
        rows = [
            np.quantile(values[start : start + count], levels)
            for start, count in zip(self.starts, self.counts, strict=True)
        ]
        return np.asarray(rows, np.float64).reshape(-1, len(levels)).T
