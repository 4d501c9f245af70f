"""The number of active volatile workers: the exact moments of y.

Zhang, Wang, Joshi, Joe-Wong, "Machine Learning on Volatile Instances", INFOCOM 2020,
arXiv 2003.05649. On-demand workers are always there. A preemptible one is away with
probability q: on its own, so that y is a constant plus a binomial number; or together
with all others, as under one bid in one market. With two bids, those who bid less are
there only while those who bid more are. A round in which nobody is there makes
no version and only takes time, so the moments are conditioned on y >= 1. The sums are
exact; of the paper only the abstract and the introduction were within reach.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.errors import ConfigError

Floats = npt.NDArray[np.float64]


class ActiveWorkers(NamedTuple):
    """The distribution of y, as far as a plan needs it."""

    idle: float
    """The probability that nobody is there."""
    full: float
    """The probability that all are there."""
    mean: float
    """E[y | y >= 1]."""
    inverse: float
    """E[1/y | y >= 1]: what the error floor follows."""


def distribution(on_demand: int, preemptible: int, away: float) -> Floats:
    """Returns the probabilities of 0, 1, ... active workers that leave on their own.

    Args:
        on_demand: workers that are always there.
        preemptible: workers that come and go.
        away: q, the probability that one of these is away.

    Returns:
        p_Y of ``on_demand + preemptible + 1`` probabilities.

    Raises:
        ConfigError: there is no worker, a number is negative, or q is outside [0, 1].
    """
    _check(on_demand, [preemptible], [away])
    p_Y = np.zeros(on_demand + preemptible + 1)
    for active in range(preemptible + 1):
        p_Y[on_demand + active] = (
            math.comb(preemptible, active)
            * (1 - away) ** active
            * away ** (preemptible - active)
        )
    return p_Y


def distribution_of_bids(
    on_demand: int, preemptible: Sequence[int], away: Sequence[float]
) -> Floats:
    """Returns the probabilities of 0, 1, ... active workers that bid in one market.

    The price is one for all: the workers of a bid are all there or all away, and there
    only while those of higher bids are.

    Args:
        on_demand: workers that are always there.
        preemptible: how many make each bid, from the highest one on.
        away: q of each bid, which rises.

    Raises:
        ConfigError: there is no worker, a number is negative, or q is outside [0, 1]
            or falls.
    """
    _check(on_demand, preemptible, away)
    p_Y = np.zeros(on_demand + sum(preemptible) + 1)
    there, below = on_demand, 0.0
    for count, q in zip(preemptible, away, strict=True):
        p_Y[there] += q - below
        there, below = there + count, q
    p_Y[there] += 1 - below
    return p_Y


def _check(on_demand: int, preemptible: Sequence[int], away: Sequence[float]) -> None:
    """Raises ConfigError where workers or probabilities cannot be."""
    if min([on_demand, *preemptible]) < 0 or on_demand + sum(preemptible) < 1:
        raise ConfigError(
            "workers: expected at least one and no negative number, got "
            f"{on_demand} on demand and {sum(preemptible)} preemptible"
        )
    if not all(0 <= q <= 1 for q in away) or [*away] != sorted(away):
        shown = ", ".join(f"{q:g}" for q in away)
        raise ConfigError(f"away: expected a probability from 0 to 1, got {shown}")


def moments_of(p_Y: Floats) -> ActiveWorkers:
    """Returns the moments of y from its distribution.

    Raises:
        ConfigError: nobody is ever there.
    """
    idle, some = float(p_Y[0]), float(p_Y[1:].sum())
    if some <= 0:
        raise ConfigError("away: with q = 1 and nobody on demand, nobody is ever there")
    y_Y = np.arange(1, len(p_Y))
    return ActiveWorkers(
        idle=idle,
        full=float(p_Y[-1]),
        mean=float(p_Y[1:] @ y_Y) / some,
        inverse=float(p_Y[1:] @ (1 / y_Y)) / some,
    )


def mean_slowest(seconds_M: Sequence[float], workers: int) -> float:
    """Returns E[max of y durations], drawn with replacement from measured ones.

    Args:
        seconds_M: measured durations of tasks.
        workers: y, how many of them a round waits for.
    """
    ordered_M = np.sort(np.asarray(seconds_M, np.float64))
    below_M = np.arange(1, len(ordered_M) + 1) / len(ordered_M)
    chance_M = np.diff(below_M**workers, prepend=0.0)
    return float(chance_M @ ordered_M)
