"""Gaussian-k sparsification: about k values, above a threshold of a bell curve.

Shi, Chu, Cheung, See, "Understanding Top-k Sparsification in Distributed Deep
Learning", arXiv 1911.08772, Algorithm 1: the threshold is the quantile of a normal
distribution with the mean and deviation of the update; it is halved while fewer than
2k/3 magnitudes exceed it, and raised by half while more than 4k/3 do, three times at
most. It costs a few passes over the vector, but our exact ``top_k`` does as well, and
three times are too few for updates whose tails are far from a bell curve's.

We depart from the paper at the ends, so that every message has between 1 and 4k/3
values: if none exceeds the threshold, the largest is sent; if more than 4k/3 do, the
k largest. One of the largest is always sent, so it is a contraction with δ ≥ 1/d.
"""

import math
from statistics import NormalDist
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedcore.arrays import array_namespace
from fedcore.compressors._ragged import sparse_rows
from fedcore.compressors._ratio import RatioConfig
from fedcore.compressors.base import Keys, count_kept
from fedcore.kernels import above, largest_indices, plain_sums, square_sums
from fedcore.payloads import Declared, Layout, Payload
from fedcore.typing import Array

_LARGEST = float(np.finfo(np.float32).max)


class GaussianK(RatioConfig):
    """About k = max(1, ⌊ratio·d⌋) values of the largest magnitude; at most 4k/3."""

    format: ClassVar[str] = "sparse"
    kind: Literal["gaussian_k"] = "gaussian_k"
    ratio: float = Field(default=0.001, gt=0, le=1)
    """Share of the values that travel, more or less."""

    @classmethod
    def example(cls) -> "GaussianK":
        """Returns a tenth of a hundred values."""
        return cls(ratio=0.1)

    def list_formats(self, layout: Layout) -> Declared:
        """Returns this format, with at most a third more than k values."""
        dim = sum(layout)
        return {self.format: min(dim, 4 * count_kept(self.ratio, dim) // 3)}

    def select(self, delta_D: Array, k: int, key: Keys) -> Payload:
        """Returns about ``k`` values; for bell-shaped updates δ is close to top_k's."""
        return sparse_rows(delta_D, lambda _, row_D: _select(row_D, k))


def _select(x_D: Array, k: int) -> Array:
    """Returns the places of the values to send, ascending."""
    xp = array_namespace(x_D)
    if not k:
        return xp.nonzero(x_D)[0]
    threshold = _first_threshold(x_D, k)
    # Of any set that holds all magnitudes above some threshold the k largest are the k
    # largest of all: once too many were found, there is no need to look elsewhere, and
    # a lower threshold would let even more through.
    too_low = -math.inf
    many_K: Any = None
    for turn in range(4):
        few, many = False, threshold <= too_low
        if not many:
            places_K = _above(x_D, threshold, 4 * k, many_K)
            few = places_K is not None and 3 * len(places_K) < 2 * k
            many = places_K is None or 3 * len(places_K) > 4 * k
            if many:
                too_low, many_K = threshold, places_K
        if turn == 3 or not (few or many):
            break
        threshold = _clamp(threshold * (0.5 if few else 1.5))
    if many and many_K is None:
        return largest_indices(x_D, k)
    if many:
        return many_K[largest_indices(x_D[many_K], k)]
    if len(places_K) == 0:
        return xp.reshape(xp.argmax(xp.abs(x_D)), (1,))
    return places_K


def _above(x_D: Array, threshold: float, most: int, among_K: Array | None) -> Any:
    """Returns places of magnitudes above the threshold; None beyond ``most``."""
    if among_K is None:
        return above(x_D, _bits(threshold), most)
    near = above(x_D[among_K], _bits(threshold), len(among_K))
    return among_K[near]


def _bits(threshold: float) -> int:
    """Returns a threshold as :func:`above` takes it."""
    if threshold < 0:
        return -1
    return int(np.abs(np.float32(threshold)).view(np.int32))


def _first_threshold(x_D: Array, k: int) -> float:
    """Returns the quantile: mean + deviation · Φ⁻¹(1 - k/2d)."""
    dim = x_D.shape[-1]
    mean, square = (float(sums(x_D)) / dim for sums in (plain_sums, square_sums))
    deviation = math.sqrt(max(0.0, square - mean * mean))
    return _clamp(mean + deviation * NormalDist().inv_cdf(1 - k / (2 * dim)))


def _clamp(threshold: float) -> float:
    return min(max(threshold, -_LARGEST), _LARGEST)
