"""Merges the buffers of a model where they are averaged.

The mean of the variances of several clients is not the variance of their data: what the
clients' means differ by is missing. So the flat vector holds a running variance as its
second moment, variance + mean². Weighted means of updates then merge it rightly,

    E[x²] - E[x]² = mean of the variances + variance of the means,

whatever the weights are, and staleness weights, error memories and lossless codecs stay
exact. After a lossy codec a moment may lie below its squared mean; the variance is then
0. Chan, Golub, LeVeque, "Algorithms for Computing the Sample Variance", The American
Statistician 37(3), 1983, equation 1.5b, is the same rule for two samples. Variances
lose digits where a mean is much larger than a standard deviation: at 30 times, 4 of 7
are left.
"""

from collections.abc import Iterable
from typing import NamedTuple

from fedcore.arrays import array_namespace
from fedcore.typing import Array


class Merge(NamedTuple):
    """Says how a tensor is merged."""

    kind: str = ""  # "" for a parameter, "mean", "variance", or "local" for a buffer
    mean: str = ""
    """The name of the mean that belongs to a variance."""

    @property
    def words(self) -> str:
        """The way of merging, in words."""
        return f"a buffer ({self.kind})" if self.kind else "a parameter"


PARAMETER = Merge()
MEAN = Merge("mean")
LOCAL = Merge("local")

Moments = Iterable[tuple[slice, slice]]
"""Where the means lie along the last axis, and the variances or second moments."""


def in_moments(w_D: Array, moments: Moments) -> None:
    """Replaces variances by second moments, in place; (D,) or (N, D)."""
    for mean, variance in moments:
        w_D[..., variance] += w_D[..., mean] ** 2


def in_variances(w_D: Array, moments: Moments) -> None:
    """Replaces second moments by variances, in place; (D,) or (N, D)."""
    xp = array_namespace(w_D)
    for mean, variance in moments:
        found = w_D[..., variance] - w_D[..., mean] ** 2
        w_D[..., variance] = xp.clip(found, 0.0, None)
