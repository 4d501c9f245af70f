"""Gradient coding: the exact sum of gradients from any n - s of n workers.

Tandon, Lei, Dimakis, Karampatziakis, "Gradient Coding: Avoiding Stragglers in
Distributed Learning", ICML 2017, arXiv 1612.03301. The data are cut into n parts, and
each worker holds s + 1 of them. Worker i returns one vector, Σ_j B[i, j] g_j, where g_j
is the gradient of part j. The weights a of the workers that answered solve a B = 1, so
that their weighted sum is Σ_j g_j.

Two constructions are here. *Fractional repetition* puts workers into groups of s + 1
that hold the same parts; its weights are 0 and 1, so the sum has the same bits
whichever workers answer. It needs s + 1 to divide n. *Cyclic repetition* (Algorithm 2)
gives worker i the parts i to i + s, modulo n; its weights are real numbers, and the sum
is exact up to rounding.

We depart from Algorithm 2 in one point: a random H may be close to singular, so we draw
several and keep the one whose decoding is best conditioned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fedcore.distributions import Floats
from fedcore.errors import ConfigError, NotDecodableError
from fedcore.rng import Key
from fedcore.typing import Indices

Kind = Literal["fractional_repetition", "cyclic"]
MOST_WORKERS = 1000  # of a silo, which are processes on one machine
_DRAWS = 16  # matrices H, of which the best conditioned is kept
_SETS = 128  # sets of stragglers by which a matrix is judged
_TOLERANCE = 1e-6  # of a B = 1; beyond it the answers do not determine the sum


@dataclass(frozen=True, eq=False)
class GradientCode:
    """Shares out n parts of the data to n workers, and adds up their answers."""

    kind: Kind
    stragglers: int
    """s: how many workers may be missing."""
    encode_WP: Floats
    """B: the weight of each part (columns) in each worker's answer (rows)."""

    @property
    def workers(self) -> int:
        """n: the number of workers, and of parts."""
        return len(self.encode_WP)

    @property
    def load(self) -> int:
        """The number of parts that each worker holds."""
        return self.stragglers + 1

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Workers of which one is enough; empty where there are no groups."""
        if self.kind == "cyclic":
            return ()
        numbers = range(self.workers)
        return tuple(
            tuple(numbers[start : start + self.load])
            for start in range(0, self.workers, self.load)
        )

    def parts(self, worker: int) -> tuple[int, ...]:
        """Returns the parts that a worker holds, ascending."""
        return tuple(np.flatnonzero(self.encode_WP[worker]).tolist())

    def can_decode(self, answered: Sequence[int]) -> bool:
        """Returns whether the sum follows from the answers of these workers."""
        if self.groups:
            there = set(answered)
            return all(there.intersection(group) for group in self.groups)
        return len(set(answered)) >= self.workers - self.stragglers

    def decode(self, answered: Sequence[int]) -> Floats:
        """Returns the weight of each of these workers' answers in the sum.

        Args:
            answered: numbers of workers, from 0, each once.

        Raises:
            NotDecodableError: the sum does not follow from these answers.
        """
        if not self.can_decode(answered):
            raise NotDecodableError(
                f"the answers of {len(answered)} of {self.workers} workers do not "
                f"determine the sum; this code survives {self.stragglers} stragglers"
            )
        if self.groups:
            first = {min(set(group).intersection(answered)) for group in self.groups}
            return np.array([float(worker in first) for worker in answered])
        rows_WP = self.encode_WP[list(answered)]
        weights_W = _solution(rows_WP)
        if not np.abs(weights_W @ rows_WP - 1).max() <= _TOLERANCE:
            raise NotDecodableError(
                f"the answers of workers {', '.join(map(str, answered))} do not "
                "determine the sum: the matrix is not one of a gradient code"
            )
        return weights_W


def sum_ready(seconds_TW: Floats, kind: Kind, stragglers: int) -> Floats:
    """Returns when the sum is known, (T,), if workers answer at these times.

    Args:
        seconds_TW: the time of each worker's answer, for each of T steps.
        kind: of the code.
        stragglers: s.
    """
    trials, workers = seconds_TW.shape
    if kind == "fractional_repetition":
        by_group = seconds_TW.reshape(trials, -1, stragglers + 1)
        last_T: Floats = by_group.min(axis=-1).max(axis=-1)
        return last_T
    wanted = workers - stragglers - 1
    wanted_T: Floats = np.partition(seconds_TW, wanted, axis=-1)[:, wanted]
    return wanted_T


def usual_kind(workers: int, stragglers: int) -> Kind:
    """Returns fractional repetition where s + 1 divides n, else cyclic.

    Raises:
        ConfigError: see :func:`check_workers`.
    """
    check_workers(workers, stragglers)
    return "cyclic" if workers % (stragglers + 1) else "fractional_repetition"


def check_workers(workers: int, stragglers: int) -> None:
    """Checks that there can be such a code.

    Raises:
        ConfigError: there is no worker, or not one that may be relied on.
    """
    if workers < 1:
        raise ConfigError(f"{workers} workers: expected 1 or more")
    if not 0 <= stragglers < workers:
        raise ConfigError(
            f"{stragglers} stragglers among {workers} workers: expected 0 to "
            f"{workers - 1}, since at least one worker has to answer"
        )


def check_silo(workers: int, stragglers: int) -> None:
    """Checks that one client can have so many workers.

    Raises:
        ConfigError: there is no such code, or they are too many for a machine.
    """
    check_workers(workers, stragglers)
    if workers > MOST_WORKERS:
        raise ConfigError(f"{workers} workers: expected {MOST_WORKERS} or fewer")


def gradient_code(workers: int, stragglers: int) -> GradientCode:
    """Returns fractional repetition where s + 1 divides n, else a cyclic code.

    Equal arguments give equal codes, so that every process can make its own.

    Raises:
        ConfigError: see :func:`check_workers`.
    """
    if usual_kind(workers, stragglers) == "fractional_repetition":
        return fractional_repetition(workers, stragglers)
    return cyclic(workers, stragglers, Key.root(0).fold_in("gradient code"))


def fractional_repetition(workers: int, stragglers: int) -> GradientCode:
    """Returns the code of groups that hold the same parts (Tandon et al., §4.1).

    Raises:
        ConfigError: s + 1 does not divide n, or see :func:`check_workers`.
    """
    check_workers(workers, stragglers)
    load = stragglers + 1
    if workers % load:
        raise ConfigError(
            f"fractional repetition of {workers} workers for {stragglers} stragglers: "
            f"{load} does not divide {workers}"
        )
    group_W = np.arange(workers) // load
    same_WP = group_W[:, np.newaxis] == group_W
    return GradientCode("fractional_repetition", stragglers, same_WP.astype(float))


def cyclic(workers: int, stragglers: int, key: Key) -> GradientCode:
    """Returns the code of Algorithm 2, in which worker i holds parts i to i + s.

    Args:
        workers: n.
        stragglers: s.
        key: draws H, of shape (s, n), whose rows sum to zero.

    Raises:
        ConfigError: see :func:`check_workers`.
    """
    check_workers(workers, stragglers)
    if stragglers == 0:
        return GradientCode("cyclic", 0, np.eye(workers))
    sets = _straggler_sets(workers, stragglers, key)
    best_WP, least = None, np.inf
    for draw in range(_DRAWS):
        rng = key.fold_in("H", draw).generator()
        h_SP = rng.standard_normal((stragglers, workers))
        h_SP -= h_SP.mean(axis=1, keepdims=True)
        encode_WP = cyclic_matrix(h_SP)
        if encode_WP is None:
            continue
        worst = max(_growth(encode_WP, missing) for missing in sets)
        if worst < least:
            best_WP, least = encode_WP, worst
    assert best_WP is not None  # a random H is invertible with probability 1
    return GradientCode("cyclic", stragglers, best_WP)


def cyclic_matrix(h_SP: Floats) -> Floats | None:
    """Returns B of Algorithm 2: row i lies in the null space of H.

    B[i, i] = 1 and B[i, S∖i] = -H[:, S∖i]⁻¹ H[:, i] with S = {i, ..., i + s} modulo n.

    Args:
        h_SP: (s, n); the vector of ones must be in its null space, so that it can be
            decoded.

    Returns:
        None where a block of H is singular.
    """
    stragglers, workers = h_SP.shape
    encode_WP = np.zeros((workers, workers))
    for worker in range(workers):
        others = (worker + np.arange(1, stragglers + 1)) % workers
        try:
            weights_S = np.linalg.solve(h_SP[:, others], -h_SP[:, worker])
        except np.linalg.LinAlgError:
            return None
        encode_WP[worker, worker] = 1.0
        encode_WP[worker, others] = weights_S
    return encode_WP


def _solution(rows_WP: Floats) -> Floats:
    """Returns the a with the least |a·rows - 1|."""
    ones_P = np.ones(rows_WP.shape[1])
    return np.asarray(np.linalg.lstsq(rows_WP.T, ones_P, rcond=None)[0], np.float64)


def _straggler_sets(workers: int, stragglers: int, key: Key) -> list[Indices]:
    """Returns sets of stragglers: runs of neighbours, and sets that are drawn."""
    rng = key.fold_in("sets").generator()
    runs = [(np.arange(stragglers) + first) % workers for first in range(workers)]
    drawn = [
        rng.choice(workers, stragglers, replace=False)
        for _ in range(max(0, _SETS - workers))
    ]
    return [np.asarray(each, np.int64) for each in (*runs, *drawn)]


def _growth(encode_WP: Floats, missing: Indices) -> float:
    """Returns by how much rounding grows when these workers are missing."""
    there_WP = np.delete(encode_WP, missing, axis=0)
    return float((np.abs(_solution(there_WP)) @ np.abs(there_WP)).max())
