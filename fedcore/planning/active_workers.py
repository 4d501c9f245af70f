"""The number of active volatile workers: the exact moments of y.

Zhang, Wang, Joshi, Joe-Wong, "Machine Learning on Volatile Instances", INFOCOM 2020,
arXiv 2003.05649. On-demand workers are always there. A preemptible one is away with
probability q: on its own, so that y is a constant plus a binomial number; or together
with all others, as under one bid in one market. A round in which nobody is there makes
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


def distribution(
    on_demand: int, preemptible: int, away: float, *, together: bool = False
) -> Floats:
    """Returns the probabilities of 0, 1, ... active workers.

    Args:
        on_demand: workers that are always there.
        preemptible: workers that come and go.
        away: q, the probability that one of these is away.
        together: whether they are all away at the same times.

    Returns:
        p_Y of ``on_demand + preemptible + 1`` probabilities.

    Raises:
        ConfigError: there is no worker, a number is negative, or q is outside [0, 1].
    """
    if min(on_demand, preemptible) < 0 or on_demand + preemptible < 1:
        raise ConfigError(
            "workers: expected at least one and no negative number, got "
            f"{on_demand} on demand and {preemptible} preemptible"
        )
    if not 0 <= away <= 1:
        raise ConfigError(f"away: expected a probability from 0 to 1, got {away:g}")
    p_Y = np.zeros(on_demand + preemptible + 1)
    if together:
        p_Y[on_demand] += away
        p_Y[-1] += 1 - away
        return p_Y
    for active in range(preemptible + 1):
        p_Y[on_demand + active] = (
            math.comb(preemptible, active)
            * (1 - away) ** active
            * away ** (preemptible - active)
        )
    return p_Y


def active_workers(
    on_demand: int, preemptible: int, away: float, *, together: bool = False
) -> ActiveWorkers:
    """Returns the moments of y; its arguments are those of :func:`distribution`.

    Raises:
        ConfigError: there is no worker, or nobody is ever there.
    """
    p_Y = distribution(on_demand, preemptible, away, together=together)
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
