"""Coded shuffling: one broadcast serves several workers with different rows.

Lee, Lam, Pedarsani, Papailiopoulos, Ramchandran, "Speeding Up Distributed Machine
Learning Using Codes", IEEE Transactions on Information Theory 64(3), 2018, arXiv
1512.02673, §V. A coordinator that has all q rows gives each of n workers a fresh q/n
rows before every pass. A worker keeps its old rows and a random part of the others. A
row that one worker needs and another one keeps can travel together with a row the other
way round: the coordinator broadcasts their XOR, and each takes its own row out of it
with the row that it has.

It moves raw data, so it has no place between clients, and this platform runs no
training on it. What is here tells how much it would save inside a cluster, and shows on
real bytes that every worker gets what it needs.

The expected number of broadcasts is derived (:func:`mean_rates`); the factor
(α + 1/n) γ(n) that it tends to is the paper's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedcore.typing import Indices

Bytes = npt.NDArray[np.uint8]
_MOST_WORKERS = 10  # of the demonstration, which goes over 2^n groups of workers


def mean_rates(workers: int, cached: float) -> tuple[float, float]:
    """Returns the shares of all rows that travel, uncoded and coded.

    Uncoded, a row travels unless its new worker keeps it: R_u = 1 - α. Coded, with
    p = (α - 1/n)/(1 - 1/n) the chance that a worker keeps a row that is not of its old
    part, a row that b other workers keep travels in a broadcast for b + 1 of them. Of
    those b one is the old owner and the others are binomial, so

    R_c = (1-1/n)(1-p) E[1/(2 + Bin(n-2, p))] = (1-p)(np - 1 + (1-p)^n) / (np)²,

    which holds for many rows, where the groups of workers are evenly filled.

    Args:
        workers: n, 2 or more.
        cached: α, the share of all rows that a worker keeps, its own 1/n included.

    Raises:
        ConfigError: there are fewer than 2 workers, or α is not 1/n to 1.
    """
    if workers < 2:
        raise ConfigError(
            f"rows are shuffled among 2 workers or more; expected that, got {workers}"
        )
    if not 1 / workers - 1e-12 <= cached <= 1:
        raise ConfigError(
            f"a cache of {cached:g} of all rows: expected 1/{workers}, which is a "
            "worker's own part, to 1"
        )
    p = max(0.0, (cached - 1 / workers) / (1 - 1 / workers))
    if p < 1e-4:  # the closed form cancels; E[1/(2 + b)] is 1/2 - (n-2)p/6 near p = 0
        coded = (1 - 1 / workers) * (1 - p) * (0.5 - (workers - 2) * p / 6)
    else:
        np_ = workers * p
        coded = (1 - p) * (np_ - 1 + (1 - p) ** workers) / np_**2
    return 1 - cached, coded


def saving(workers: int, cached: float, multicast_gain: float) -> float:
    """Returns how many times cheaper coded shuffling is than uncoded.

    It is R_u / (R_c n/γ). For α not too small it is near (α + 1/n) γ, as in the paper's
    abstract.

    Args:
        workers: n.
        cached: α.
        multicast_gain: γ, by how much one message to all n workers is cheaper than n
            messages to one each: 1 to n.

    Raises:
        ConfigError: γ is not 1 to n, or see :func:`mean_rates`.
    """
    if not 1 <= multicast_gain <= workers:
        raise ConfigError(
            f"a multicast gain of {multicast_gain:g} among {workers} workers: expected "
            f"1 to {workers}"
        )
    uncoded, coded = mean_rates(workers, cached)
    if uncoded == 0:
        raise ConfigError("a cache of all rows: nothing has to travel")
    return uncoded / coded * multicast_gain / workers


@dataclass(frozen=True, eq=False)
class CodedShuffle:
    """The messages of one shuffle, and the rows that each worker decoded from them."""

    parts: tuple[Indices, ...]
    """By worker: the rows of its new part."""
    needed: tuple[Indices, ...]
    """By worker: those of them that it does not keep."""
    decoded: tuple[Bytes, ...]
    """By worker: the rows that it needed, (number, bytes of a row)."""
    uncoded_nbytes: int
    """Bytes of the rows, each sent to its worker alone."""
    coded_nbytes: int
    """Bytes of the broadcasts."""


def shuffle_coded(
    rows_QB: Bytes,
    workers: int,
    cached: float,
    key: Key,
    old: Sequence[Indices] | None = None,
) -> CodedShuffle:
    """Shuffles real bytes among workers by coded broadcasts.

    Each worker decodes with nothing but the broadcasts and the rows that it keeps.

    Args:
        rows_QB: the data: q rows of as many bytes each; n divides q.
        workers: n, 2 to 10: the broadcasts go over all groups of workers.
        cached: α, 1/n to 1.
        key: draws the old order, the caches, and the new order.
        old: by worker, the rows of its old part, q/n each; drawn if it is None.

    Raises:
        ConfigError: n does not divide q, or is out of range; see
            :func:`mean_rates`.
    """
    mean_rates(workers, cached)  # checks both
    count, width = rows_QB.shape
    if workers > _MOST_WORKERS or count % workers:
        raise ConfigError(
            f"{count} rows among {workers} workers: the demonstration takes 2 to "
            f"{_MOST_WORKERS} workers, whose number divides that of the rows"
        )
    rng = key.generator()
    if old is None:
        old = np.split(rng.permutation(count), workers)
    has_WQ = _caches(count, old, cached, rng)
    new_Q = np.repeat(np.arange(workers), count // workers)[rng.permutation(count)]
    # What each worker keeps; zero elsewhere, so that it cannot look at other rows.
    kept_WQB = np.where(has_WQ[..., np.newaxis], rows_QB, np.uint8(0))
    got = [dict[int, Bytes]() for _ in range(workers)]
    sent = 0
    for size in range(2, workers + 1):
        for group in combinations(range(workers), size):
            queues = _queues(group, has_WQ, new_Q)
            for turn in range(max(map(len, queues), default=0)):
                these = {
                    worker: int(queue[turn])
                    for worker, queue in zip(group, queues, strict=True)
                    if turn < len(queue)
                }
                message = _xor(rows_QB[list(these.values())])
                sent += 1
                for worker, row in these.items():
                    others = [each for each in these.values() if each != row]
                    got[worker][row] = message ^ _xor(kept_WQB[worker, others])
    parts = tuple(np.flatnonzero(new_Q == worker) for worker in range(workers))
    needed = tuple(
        rows[~has_Q[rows]] for rows, has_Q in zip(parts, has_WQ, strict=True)
    )
    empty = np.empty((0, width), np.uint8)
    decoded = tuple(
        np.stack([got[worker][int(row)] for row in rows]) if len(rows) else empty
        for worker, rows in enumerate(needed)
    )
    uncoded = sum(map(len, needed)) * width
    return CodedShuffle(parts, needed, decoded, uncoded, sent * width)


def _caches(
    count: int, old: Sequence[Indices], cached: float, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Draws which rows each worker keeps beside its old part, (n, q)."""
    has_WQ = np.zeros((len(old), count), bool)
    for has_Q, own in zip(has_WQ, old, strict=True):
        has_Q[own] = True
        others = np.flatnonzero(~has_Q)
        more = round(cached * count) - len(own)
        has_Q[rng.choice(others, more, replace=False)] = True
    return has_WQ


def _queues(
    group: tuple[int, ...], has_WQ: npt.NDArray[np.bool_], new_Q: Indices
) -> list[Indices]:
    """Returns for each worker of a group the rows that exactly the others keep."""
    inside = np.zeros(len(has_WQ), bool)
    inside[list(group)] = True
    queues = []
    for worker in group:
        keepers = inside.copy()
        keepers[worker] = False
        is_kept = (has_WQ == keepers[:, np.newaxis]).all(axis=0)
        queues.append(np.flatnonzero(is_kept & (new_Q == worker)))
    return queues


def _xor(rows_KB: Bytes) -> Bytes:
    found: Bytes = np.bitwise_xor.reduce(rows_KB, axis=0)
    return found
