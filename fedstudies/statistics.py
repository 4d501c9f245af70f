"""Means with intervals over seeds, and whether two sides differ by more than chance."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedcore.rng import Key

LEVEL = 0.95
ALPHA = 0.05
ONE_SEED = "One seed does not tell a small difference from chance; --seeds 3 does."
_MOST_EXACT = 16  # differences whose signs are all tried
_DRAWS = 1 << 16  # of signs, where they are more
_SLACK = 1e-9  # relative; the order of a sum changes its last digits


class Estimate(NamedTuple):
    """A mean over seeds."""

    mean: float
    """NaN where there are no values."""
    half: float | None
    """Half the width of its 95 % interval; None for fewer than two values."""
    size: int
    """The number of values."""

    def as_json(self) -> dict[str, float | None]:
        """Returns the numbers as plain data."""
        known = self.mean if self.size else None
        return {"mean": known, "half_width_95": self.half, "seeds": self.size}


class Paired(NamedTuple):
    """The differences of two sides, seed by seed."""

    difference: Estimate
    p: float | None
    """The two-sided p-value of the sign-flip test; None for fewer than two seeds."""

    def as_json(self) -> dict[str, float | None]:
        """Returns the numbers as plain data."""
        return {**self.difference.as_json(), "p": self.p}


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """The mean and its interval (Student t).

    Args:
        values: one value for each seed; those that are not finite are left out.
        level: the probability of the interval.
    """
    known = [float(value) for value in values if math.isfinite(value)]
    count = len(known)
    if count < 2:
        return Estimate(known[0] if known else math.nan, None, count)
    error = standard_error(known)
    assert error is not None
    half = student_t(count - 1, level) * error
    return Estimate(math.fsum(known) / count, half, count)


def standard_error(values: Sequence[float]) -> float | None:
    """The standard error of the mean; None for fewer than two values."""
    count = len(values)
    if count < 2:
        return None
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return math.sqrt(variance / count)


def student_t(freedom: int, level: float = LEVEL) -> float:
    """The t with P(|T| < t) = ``level`` in Student's distribution.

    It is found by bisection on the angle θ = arctan(t / √ν).

    Args:
        freedom: the degrees of freedom ν, a positive integer.
        level: a probability between 0 and 1.

    Raises:
        ValueError: an argument is out of range.
    """
    if freedom < 1 or not 0 < level < 1:
        raise ValueError(f"no quantile for {freedom} degrees of freedom at {level}")
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        if _within(middle, freedom) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """P(|T| < √ν tan θ), a finite sum for each integer ν.

    Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2
    if freedom == 1:
        return 2 * angle / math.pi
    term = cosine if is_odd else 1.0
    total = term
    for step in range(2 + is_odd, freedom - 1, 2):
        term *= (step - 1) / step * cosine**2
        total += term
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total


def least_share(count: int, of: int, level: float = LEVEL) -> float:
    """The one-sided lower bound of a share (Clopper and Pearson, 1934).

    Args:
        count: how often it happened.
        of: how often it could have; 1 or more.
        level: the probability of the bound.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        at_least = math.fsum(
            math.comb(of, n) * middle**n * (1 - middle) ** (of - n)
            for n in range(count, of + 1)
        )
        if at_least > 1 - level:
            high = middle
        else:
            low = middle
    return low


def compare_seeds(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired:
    """Compares two sides seed by seed.

    Args:
        ours: values by seed.
        theirs: values by seed.

    Returns:
        The differences ours - theirs over the seeds for which both are finite.
    """
    differences = [
        ours[seed] - theirs[seed]
        for seed in sorted(ours.keys() & theirs.keys())
        if math.isfinite(ours[seed]) and math.isfinite(theirs[seed])
    ]
    p = sign_flip_p(differences) if len(differences) > 1 else None
    return Paired(estimate(differences), p)


def sign_flip_p(differences: Sequence[float]) -> float:
    """The two-sided p-value of Fisher's permutation test for paired samples.

    The differences are given all 2^n combinations of signs, or a sample of 2^16 of
    them where n is above 16. The p-value is the share of the combinations whose sum is
    at least as far from 0 as that of the differences. The test assumes only that,
    without an effect, both signs are equally likely.
    """
    count = len(differences)
    sizes_S = np.abs(np.asarray(differences, np.float64))
    seen = abs(math.fsum(differences)) - _SLACK * float(sizes_S.sum())
    if count <= _MOST_EXACT:
        sums_W = np.zeros(1)
        for size in sizes_S:
            sums_W = np.concatenate([sums_W + size, sums_W - size])
        return float((np.abs(sums_W) >= seen).mean())
    rng = Key.root(0).fold_in("sign flips").generator()
    signs_WS = rng.integers(0, 2, (_DRAWS, count), np.int8) * 2.0 - 1
    beyond = int((np.abs(signs_WS @ sizes_S) >= seen).sum())
    return (1 + beyond) / (1 + _DRAWS)


def least_p(count: int) -> float:
    """The smallest p-value that ``count`` seeds can give."""
    return float(2.0 ** (1 - count))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Adjusts p-values for their number (Holm, 1979); None stays None."""
    known = sorted((p, place) for place, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (p, place) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * p))
        adjusted[place] = least
    return adjusted
