"""One bit a value: which values are positive, and vectors of plus and minus a scale."""

from collections.abc import Iterator
from itertools import groupby

import numpy as np
import numpy.typing as npt

from fedcore.arrays import BLOCK, array_namespace, like, pieces, row_pieces
from fedcore.kernels.library import align, find_compiled
from fedcore.rng import Words, bits
from fedcore.typing import Array, Vector

# The eight signs that a byte stands for: a set bit says plus.
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8), bitorder="little")
SIGNS = 2 * _BITS.reshape(256, 8).astype(np.float32) - 1

Marks = npt.NDArray[np.bool_]


def positive(x: Array, seeds: Words) -> Array:
    """Returns which values are positive, shape ``(..., D)``; zeros are drawn at random.

    A zero at place i counts as positive if the top bit of word i of the row's stream is
    set.
    """
    kernels = find_compiled(x) if x.dtype == np.float32 else None
    if kernels:
        marks = np.empty(x.shape, np.bool_)
        kernels.positive(x, align(seeds, np.uint64), marks)
        return marks
    xp = array_namespace(x)
    marks = x > 0
    for part in pieces(x):
        zero = x[..., part] == 0
        if bool(xp.any(zero)):
            words = bits(seeds, part.start, part.stop - part.start)
            coin = like((words >> np.uint64(63)).astype(bool), x)
            marks[..., part] = xp.where(zero, coin, marks[..., part])
    return marks


def put_signs(plus_D: Marks, scales_T: Vector, sizes_T: Array, out_D: Vector) -> None:
    """Writes ``out = ± scale``, with a scale for each part of the vector."""
    kernels = find_compiled(plus_D, out_D)
    if kernels:
        sizes, scales = align(sizes_T, np.int64), align(scales_T, np.float32)
        kernels.put_signs(plus_D, sizes, scales, out_D)
        return
    for _ in _pieces(plus_D, scales_T, sizes_T, out_D):
        pass


def add_signs(plus_D: Marks, scales_T: Vector, sizes_T: Array, out_D: Vector) -> None:
    """Adds ``out += ± scale``, with a scale for each part of the vector."""
    kernels = find_compiled(plus_D, out_D)
    if kernels:
        sizes, scales = align(sizes_T, np.int64), align(scales_T, np.float32)
        kernels.add_signs(plus_D, sizes, scales, out_D)
        return
    for piece, values in _pieces(plus_D, scales_T, sizes_T):
        out_D[piece] += values


def _pieces(
    plus_D: Marks, scales_T: Vector, sizes_T: Array, into_D: Vector | None = None
) -> Iterator[tuple[slice, Vector]]:
    """Yields the values, piece by piece, in place or in a scratch array."""
    groups = ((size, len(list(equal))) for size, equal in groupby(sizes_T.tolist()))
    scratch = np.empty(min(BLOCK, len(plus_D)) + 8, np.float32)
    for piece in row_pieces(groups):
        packed = np.packbits(plus_D[piece.values], bitorder="little")
        count = piece.values.stop - piece.values.start
        eights = scratch[: 8 * len(packed)]
        if into_D is not None and count % 8 == 0:
            eights = into_D[piece.values]
        one = piece.rows.stop - piece.rows.start == 1  # row: its scale is in the table
        table = SIGNS * scales_T[piece.rows] if one else SIGNS
        np.take(table, packed, axis=0, out=eights.reshape(-1, 8), mode="clip")
        values = eights[:count]
        if not one:
            rows = values.reshape(-1, piece.width)
            rows *= scales_T[piece.rows, np.newaxis]
        if into_D is not None and count % 8:
            into_D[piece.values] = values
        yield piece.values, values
