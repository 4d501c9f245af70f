"""Sums along the last axis, in double precision and in one order everywhere.

Element i of a row goes to lane i mod 64, in turn; then the lanes are added by halves,
lane j and lane j + 32, j and j + 16, and so on. A sum that is no number is the one
quiet NaN.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedcore.arrays import array_namespace, is_numpy
from fedcore.kernels.library import find_compiled
from fedcore.typing import Array

LANES = 64
_SOME = 1 << 14  # doubles that stay in a cache


def absolute_sums(rows: Array) -> Array:
    """Returns sums of magnitudes, shape ``rows.shape[:-1]``."""
    return _sums("absolute_sums", rows, _absolute)


def square_sums(rows: Array) -> Array:
    """Returns sums of squares, shape ``rows.shape[:-1]``; finite for finite float32."""
    return _sums("square_sums", rows, _square)


def plain_sums(rows: Array) -> Array:
    """Returns sums, shape ``rows.shape[:-1]``."""
    return _sums("plain_sums", rows, lambda _: None)


def _absolute(x: Array) -> None:
    array_namespace(x).abs(x, out=x)


def _square(x: Array) -> None:
    x *= x


def _sums(name: str, rows: Array, change: Callable[[Array], None]) -> Array:
    """Sums doubles that ``change`` has changed in place."""
    kernels = find_compiled(rows) if rows.dtype == np.float32 else None
    if kernels:
        sums = np.empty(rows.shape[:-1], np.float64)
        getattr(kernels, name)(rows, sums)
        return sums
    if is_numpy(rows):
        return in_lanes(rows, change)
    xp = array_namespace(rows)
    doubles = xp.astype(rows, xp.float64, copy=True)
    change(doubles)
    return xp.sum(doubles, axis=-1)


def in_lanes(rows: Any, change: Callable[[Any], None]) -> Any:
    """Sums as the compiled loop does, in NumPy."""
    size = rows.shape[-1]
    sums = np.zeros(rows.shape[:-1], np.float64).reshape(-1)
    flat = rows.reshape(len(sums), size)
    # Lanes without an element are zeros, and adding these changes nothing.
    lanes = min(LANES, 1 << max(0, size - 1).bit_length())
    some = max(1, _SOME // max(lanes, size))
    with np.errstate(invalid="ignore"):
        for at in range(0, len(flat), some):
            part = flat[at : at + some]
            sums[at : at + some] = _fold(_add(part, lanes, change))
    return sums.reshape(rows.shape[:-1])


def _add(rows: Any, lanes: int, change: Callable[[Any], None]) -> Any:
    count, size = rows.shape
    added = np.zeros((count, lanes), np.float64)
    for at in range(0, size, _SOME):
        part = rows[:, at : at + _SOME]
        turns = -(-part.shape[1] // lanes)
        table = np.zeros((count, (1 + turns) * lanes), np.float64)
        table[:, :lanes] = added
        doubles = table[:, lanes : lanes + part.shape[1]]
        doubles[...] = part
        change(doubles)
        # Over an axis that is not the last one NumPy adds in turn.
        added = table.reshape(count, 1 + turns, lanes).sum(axis=1)
    return added


def _fold(lanes: Any) -> Any:
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return np.where(np.isnan(lanes), np.nan, lanes)[:, 0]
