"""The distance between two samples."""

import math
from typing import NamedTuple

import numpy as np

from fedview.report.downsample import Floats

_AT_5_PERCENT = 1.358  # the statistic's critical value, times √(nm / (n + m))
_TERMS = 100


class Distance(NamedTuple):
    """Kolmogorov and Smirnov's distance of two samples."""

    statistic: float
    """The largest difference between the two shares of values up to any x."""
    bound: float
    """Two samples of one distribution are farther apart in one case of twenty."""
    p: float
    """Their chance to be as far apart; less than this where many values are equal."""

    @property
    def may_be_chance(self) -> bool:
        """Whether one distribution may have made both."""
        return self.statistic <= self.bound


def distance(x_N: Floats, y_M: Floats) -> Distance:
    """The two-sample Kolmogorov-Smirnov test, D = sup |F_n(x) - G_m(x)|.

    The bound and p are asymptotic, for independent values of a continuous distribution;
    ties make them conservative.

    Smirnov, "Table for Estimating the Goodness of Fit of Empirical Distributions",
    Annals of Mathematical Statistics, 1948.

    Raises:
        ValueError: a sample is empty.
    """
    if not len(x_N) or not len(y_M):
        raise ValueError("an empty sample is at no distance from another one")
    x_N, y_M = np.sort(x_N), np.sort(y_M)
    at = np.concatenate([x_N, y_M])
    share_x = np.searchsorted(x_N, at, side="right") / len(x_N)
    share_y = np.searchsorted(y_M, at, side="right") / len(y_M)
    statistic = float(np.abs(share_x - share_y).max())
    root = math.sqrt(len(x_N) * len(y_M) / (len(x_N) + len(y_M)))
    return Distance(statistic, _AT_5_PERCENT / root, _beyond(root * statistic))


def _beyond(x: float) -> float:
    """Kolmogorov's distribution: P(K > x) = 2 Σ (-1)^(k-1) e^(-2k²x²)."""
    if x < 0.2:  # where it is 1 in all digits, and the series is slow
        return 1.0
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, _TERMS))
    return min(1.0, max(0.0, 2 * math.fsum(terms)))
