"""The time of a coded computation when workers straggle.

Lee, Lam, Pedarsani, Papailiopoulos, Ramchandran, "Speeding Up Distributed Machine
Learning Using Codes", IEEE Transactions on Information Theory 64(3), 2018, arXiv
1512.02673, §III. The whole work takes one worker the time 1 + X, where X is exponential
with rate μ; a share of it takes that share of the time. H_n = 1 + 1/2 + ... + 1/n is
the mean of the largest of n exponential times, and H_n - H_{n-k} that of the k-th
smallest.

The formulas of gradient coding are derived in the same model: each of n workers
computes s + 1 of n parts.
"""

import numpy as np

from fedcore.coding.gradient_coding import Kind, check_workers
from fedcore.distributions import Floats
from fedcore.errors import ConfigError
from fedcore.rng import Key


def _harmonic(count: int) -> float:
    return float((1.0 / np.arange(1, count + 1)).sum())


def _check_rate(straggling: float) -> None:
    if not (straggling > 0 and np.isfinite(straggling)):
        raise ConfigError(f"straggling rate {straggling}: expected a number above 0")


def uncoded_seconds(workers: int, straggling: float) -> float:
    """Returns (1/n)(1 + H_n/μ): each does one n-th, and all of them are waited for.

    Args:
        workers: n.
        straggling: μ, the rate of the exponential part; small is bad.

    Raises:
        ConfigError: there is no worker, or the rate is not above 0.
    """
    return mds_seconds(workers, workers, straggling)


def mds_seconds(workers: int, needed: int, straggling: float) -> float:
    """Returns (1/k)(1 + (H_n - H_{n-k})/μ): each does one k-th, k are waited for.

    Args:
        workers: n.
        needed: k.
        straggling: μ.

    Raises:
        ConfigError: k is not 1 to n, or the rate is not above 0.
    """
    check_workers(workers, 0)
    _check_rate(straggling)
    if not 1 <= needed <= workers:
        raise ConfigError(
            f"{needed} answers of {workers} workers: expected 1 to {workers}"
        )
    late = _harmonic(workers) - _harmonic(workers - needed)
    return (1 + late / straggling) / needed


def best_split(workers: int, straggling: float) -> int:
    """Returns the k with the least :func:`mds_seconds`.

    For many workers it is near n (1 + 1/W₋₁(-e^(-μ-1))), by Lee et al., eq. (10).
    """
    ks = range(1, workers + 1)
    check_workers(workers, 0)
    return min(ks, key=lambda k: mds_seconds(workers, k, straggling))


def replicated_seconds(workers: int, copies: int, straggling: float) -> float:
    """Returns (r/n)(1 + H_{n/r}/(rμ)): the first of r copies of each part counts.

    Args:
        workers: n.
        copies: r, which divides n.
        straggling: μ.

    Raises:
        ConfigError: r does not divide n, or the rate is not above 0.
    """
    check_workers(workers, 0)
    _check_rate(straggling)
    if copies < 1 or workers % copies:
        raise ConfigError(
            f"{copies} copies among {workers} workers: expected a divisor of {workers}"
        )
    late = _harmonic(workers // copies) / (copies * straggling)
    return (1 + late) * copies / workers


def coded_gradient_seconds(
    workers: int, stragglers: int, kind: Kind, straggling: float
) -> float:
    """Returns the mean time of one sum of gradients by a gradient code.

    A cyclic code waits for n - s answers: ((s+1)/n)(1 + (H_n - H_s)/μ). Fractional
    repetition has the sum once each group has answered, as replication does.

    Args:
        workers: n.
        stragglers: s.
        kind: of the code.
        straggling: μ.

    Raises:
        ConfigError: there is no such code, or the rate is not above 0.
    """
    check_workers(workers, stragglers)
    if kind == "fractional_repetition":
        return replicated_seconds(workers, stragglers + 1, straggling)
    _check_rate(straggling)
    late = _harmonic(workers) - _harmonic(stragglers)
    return (1 + late / straggling) * (stragglers + 1) / workers


def worker_seconds(
    workers: int, share: float, straggling: float, trials: int, key: Key
) -> Floats:
    """Draws how long each worker takes for its share of the work, (T, n).

    Args:
        workers: n.
        share: of the whole work that each of them does.
        straggling: μ.
        trials: T.
        key: the randomness.
    """
    x_TW = key.generator().standard_exponential((trials, workers))
    return share * (1 + x_TW / straggling)


def kth_fastest(seconds_TW: Floats, needed: int) -> Floats:
    """Returns when the k-th worker of each trial is done, (T,)."""
    return np.partition(seconds_TW, needed - 1, axis=-1)[:, needed - 1]
