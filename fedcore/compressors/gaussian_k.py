"""Gaussian-k sparsification: about k values, above a threshold of a bell curve.

Shi, Chu, Cheung, See, "Understanding Top-k Sparsification in Distributed Deep
Learning", arXiv 1911.08772, Algorithm 1: the threshold is the quantile of a normal
distribution with the mean and deviation of the update; it is halved while fewer than
2k/3 magnitudes exceed it, and raised by half while more than 4k/3 do, three times at
most. It costs a few passes over the vector, where exact selection costs many.

We depart from the paper at the ends, so that every message has between 1 and 4k/3
values: if none exceeds the threshold, the largest is sent; if more than 4k/3 do, the
k largest. One of the largest is always sent, so it is a contraction with δ ≥ 1/d.
"""

import math
from statistics import NormalDist
from typing import Literal

import numpy as np
from pydantic import Field

from fedcore.arrays import array_namespace, pieces, top_k_indices
from fedcore.compressors._ragged import sparse_rows
from fedcore.compressors._ratio import RatioConfig
from fedcore.compressors.base import Keys
from fedcore.payloads import Payload
from fedcore.typing import Array

_LARGEST = float(np.finfo(np.float32).max)
_SMALL = 1e-30  # below it squares may have vanished in float32


class GaussianK(RatioConfig):
    """About k = max(1, ⌊ratio·d⌋) values of the largest magnitude; at most 4k/3."""

    kind: Literal["gaussian_k"] = "gaussian_k"
    ratio: float = Field(default=0.001, gt=0, le=1)
    """Share of the values that travel, more or less."""

    @classmethod
    def example(cls) -> "GaussianK":
        """A tenth of a hundred values."""
        return cls(ratio=0.1)

    def select(self, delta_D: Array, k: int, key: Keys) -> Payload:
        """The message of about ``k``; δ is close to top_k's for bell-shaped updates."""
        return sparse_rows(delta_D, lambda _, row_D: _select(row_D, k))


def _select(x_D: Array, k: int) -> Array:
    """The places of the values to send, ascending."""
    xp = array_namespace(x_D)
    if not k:
        return xp.nonzero(x_D)[0]
    threshold = _first_threshold(x_D, k)
    # Of any set that holds all magnitudes above some threshold the k largest are the k
    # largest of all: once too many were found, there is no need to look elsewhere.
    least, many_K = math.inf, None
    for turn in range(4):
        if many_K is None:
            places_K = _above(x_D, threshold)
        elif threshold > least:
            places_K = many_K[xp.abs(x_D[many_K]) > threshold]
        else:
            places_K = many_K
        few, many = 3 * len(places_K) < 2 * k, 3 * len(places_K) > 4 * k
        if turn == 3 or not (few or many):
            break
        if many and places_K is not many_K:
            least, many_K = threshold, places_K
        threshold = _bounded(threshold * (0.5 if few else 1.5))
    if len(places_K) == 0:
        return xp.reshape(xp.argmax(xp.abs(x_D)), (1,))
    if many:
        return places_K[top_k_indices(xp.abs(x_D[places_K]), k)]
    return places_K


def _above(x_D: Array, threshold: float) -> Array:
    """Where magnitudes exceed the threshold, ascending."""
    xp = array_namespace(x_D)
    found = [
        xp.nonzero(xp.abs(x_D[part]) > threshold)[0] + part.start
        for part in pieces(x_D)
    ]
    return xp.concat(found)


def _first_threshold(x_D: Array, k: int) -> float:
    """The quantile: mean + deviation · Φ⁻¹(1 - k/2d)."""
    dim = x_D.shape[-1]
    mean, square = (moment / dim for moment in _moments(x_D))
    deviation = math.sqrt(max(0.0, square - mean * mean))
    return _bounded(mean + deviation * NormalDist().inv_cdf(1 - k / (2 * dim)))


def _moments(x_D: Array) -> tuple[float, float]:
    """The sum and the sum of squares: of blocks in float32, of all in double."""
    xp = array_namespace(x_D)
    total = squares = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for part in pieces(x_D):
            total += float(xp.sum(x_D[part]))
            squares += float(xp.sum(x_D[part] ** 2))
        if not _SMALL < squares < math.inf:
            squares = sum(
                float(xp.sum(xp.astype(x_D[part], xp.float64) ** 2))
                for part in pieces(x_D)
            )
    return total, squares


def _bounded(threshold: float) -> float:
    return min(max(threshold, -_LARGEST), _LARGEST)
