"""Whole multiples of a step, one step for each bucket of neighbouring values.

The step is the largest magnitude of a bucket, or its Euclidean norm, over ``top``. A
value is multiplied with the step's inverse, in float32, and never divided; a step below
2^-64 is enlarged first, together with the values, so that its inverse is a number.
Rounding at random is done on whole multiples of 2^-24 steps: with 24 random bits added
and the lowest 24 cut off, the mean is right, and a whole multiple stays what it is.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedcore.arrays import BLOCK, array_namespace, is_numpy, like, pieces, row_pieces
from fedcore.kernels.library import align, find_compiled
from fedcore.kernels.sums import square_sums
from fedcore.rng import Words, noise
from fedcore.typing import Array, Vector

Measure = Literal["largest", "norm"]
Levels = npt.NDArray[np.int8]

_MEASURES: tuple[Measure, ...] = ("largest", "norm")  # as they are numbered in C
_MAGNITUDE = 0x7FFFFFFF
_FINE = 2.0**24
_TINY = 2.0**-64


def quantise(
    x: Array, bucket: int, top: int, measure: Measure, seeds: Words | None
) -> tuple[Array, Array]:
    """Rounds values to whole multiples of a step, one step a bucket.

    Args:
        x: float32, shape ``(..., D)``.
        bucket: how many neighbouring values share a step.
        top: the largest multiple, 1 to 127.
        measure: what the step is a share of: a bucket's largest magnitude or its norm.
        seeds: one a row: values are rounded up or down at random, so that the mean is
            right. Without seeds they are rounded to the nearest, and ties to even.

    Returns:
        The multiples in [-top, top], shape ``(..., D)``, and the steps.
    """
    dim, count = x.shape[-1], -(-x.shape[-1] // bucket)
    kernels = find_compiled(x) if x.dtype == np.float32 else None
    if kernels and x.size:
        levels = np.empty(x.shape, np.int8)
        steps = np.empty((*x.shape[:-1], count), np.float32)
        words = None if seeds is None else align(seeds, np.uint64)
        number = _MEASURES.index(measure)
        rows = x.size // dim
        kernels.quantise(x, rows, bucket, top, number, words, levels, steps)
        return levels, steps
    xp = array_namespace(x)
    levels = xp.empty_like(x, dtype=xp.int8)
    steps = like(np.empty((*x.shape[:-1], count), np.float32), x)
    with np.errstate(invalid="ignore", over="ignore"):  # a peer would see the NaN
        for part in pieces(x, unit=bucket):
            at, end = part.start // bucket, -(-part.stop // bucket)
            rows = _rows(x[..., part], bucket)
            drawn = None
            if seeds is not None:
                drawn = noise(seeds, (end - at) * bucket, part.start)
                drawn = like(drawn, x).reshape(rows.shape)
            some = steps[..., at:end]
            some[...] = _steps(rows, top, measure)
            whole = _levels(rows, some, top, drawn)
            flat = whole.reshape((*x.shape[:-1], (end - at) * bucket))
            levels[..., part] = flat[..., : part.stop - part.start]
    return levels, steps


def norms(rows: Array) -> Array:
    """Returns Euclidean norms along the last axis, in double precision."""
    return array_namespace(rows).sqrt(square_sums(rows))


def _largest(rows: Array) -> Array:
    """Returns the largest magnitudes; NaN counts as larger than infinity."""
    xp = array_namespace(rows)
    return xp.max(rows.view(xp.int32) & _MAGNITUDE, axis=-1).view(xp.float32)


def _rows(x: Array, bucket: int) -> Array:
    """Returns whole buckets; the last one is padded with zeros."""
    missing = -x.shape[-1] % bucket
    if missing:
        padding = like(np.zeros((*x.shape[:-1], missing), np.float32), x)
        x = array_namespace(x).concat([x, padding], axis=-1)
    return x.reshape((*x.shape[:-1], -1, bucket))


def _steps(rows: Array, top: int, measure: Measure) -> Array:
    xp = array_namespace(rows)
    found = norms(rows) if measure == "norm" else _largest(rows)
    steps = xp.astype(xp.astype(found, xp.float64) / top, xp.float32)
    return xp.where(xp.isnan(steps), xp.full_like(steps, np.nan), steps)


def _levels(rows: Array, steps: Array, top: int, drawn: Array | None) -> Array:
    xp = array_namespace(rows)
    unit, one = 1.0 if drawn is None else _FINE, xp.ones_like(steps)
    boost = xp.where(steps < _TINY, one / _TINY, one)
    # A step of zero is that of zeros, and of what is too small to be sent.
    inverse = unit * one / xp.where(steps == 0, one * np.inf, steps * boost)
    scaled = rows * boost[..., np.newaxis]
    scaled *= inverse[..., np.newaxis]
    scaled = _clip(scaled, top * unit)
    if drawn is None:
        return xp.astype(xp.round(scaled), xp.int8)
    whole = xp.astype(scaled, xp.int32)
    whole += drawn
    whole >>= 24
    return xp.astype(whole, xp.int8)


def _clip(x: Array, most: float) -> Array:
    """Clips values to -most and most; NaN becomes ``most``."""
    if is_numpy(x):
        np.fmin(x, np.float32(most), out=x)
        np.maximum(x, np.float32(-most), out=x)
        return x
    xp = array_namespace(x)
    return xp.clip(xp.where(xp.isnan(x), xp.full_like(x, most), x), -most, most)


def put_levels(levels_D: Levels, bucket: int, steps: Vector, out_D: Vector) -> None:
    """Writes ``out = level * step``."""
    kernels = find_compiled(levels_D, out_D)
    if kernels:
        kernels.put_levels(levels_D, bucket, align(steps, np.float32), None, out_D)
        return
    for _ in _pieces(levels_D, bucket, steps, out_D):
        pass


def add_levels(
    levels_D: Levels, bucket: int, steps: Vector, scale: np.float32, out_D: Vector
) -> None:
    """Adds ``out += level * step * scale``, rounded after each operation."""
    kernels = find_compiled(levels_D, out_D)
    if kernels:
        own = align(steps, np.float32)
        kernels.put_levels(levels_D, bucket, own, float(scale), out_D)
        return
    for piece, values in _pieces(levels_D, bucket, steps):
        if scale != 1:
            values *= scale
        out_D[piece] += values


def _pieces(
    levels_D: Levels, bucket: int, steps: Vector, into_D: Vector | None = None
) -> Iterator[tuple[slice, Vector]]:
    """Yields the values, piece by piece, in place or in a scratch array."""
    dim = len(levels_D)
    full, rest = divmod(dim, bucket)
    scratch = np.empty(min(BLOCK, dim), np.float32)
    for piece in row_pieces([(bucket, full), (rest, min(1, rest))]):
        if into_D is None:
            values = scratch[: piece.values.stop - piece.values.start]
        else:
            values = into_D[piece.values]
        values[...] = levels_D[piece.values]
        rows = values.reshape(-1, piece.width)
        rows *= steps[piece.rows, np.newaxis]
        yield piece.values, values
