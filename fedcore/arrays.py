"""Operations that the array API standard lacks, for NumPy and torch.

Everything works along the last axis. NumPy is the path of every CPU; torch
tensors pass through where a simulation lives on a GPU.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fedcore.typing import Array

# Big enough to amortise a call, small enough for a core's L2 cache.
BLOCK = 1 << 16
LARGE = 1 << 22  # values: of so many, no copy is made where parts of them will do
PART = 1 << 18  # values of a large vector that are summed or changed at a time
_SAMPLE = 1 << 13  # values that a threshold is guessed from
_MAGNITUDE = 0x7FFFFFFF  # the bits of a float32 number without its sign

# For functions whose matrix products are of finite numbers. OpenBLAS computes whole
# registers, and what happens to stand in memory beyond a matrix's edge can raise the
# flag of an invalid operation, though it enters no result (numpy issue 24067).
finite_products = np.errstate(invalid="ignore")


class Piece(NamedTuple):
    """Neighbouring values of a vector, and the rows that they belong to."""

    values: slice
    rows: slice
    width: int  # of a row, or of the part of one that this is


def array_namespace(x: Array) -> Any:
    """Returns the array API namespace of ``x``; a call takes 5 µs."""
    if isinstance(x, np.ndarray):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(x)


def is_numpy(x: Array) -> bool:
    """Returns whether ``x`` is an array or a number of NumPy."""
    return isinstance(x, np.ndarray | np.generic)


def as_numpy(x: Array) -> Any:
    """Returns ``x`` as a NumPy array; copied only from another device."""
    return x if is_numpy(x) else x.detach().cpu().numpy()


def like(values: Any, reference: Array) -> Array:
    """Returns NumPy ``values`` in the library and on the device of ``reference``."""
    if is_numpy(reference):
        return values
    xp = array_namespace(reference)
    return xp.asarray(values, device=reference.device)


def resize(x_D: Array, width: int) -> Array:
    """Returns the first values of the last axis; zeros follow where there are fewer."""
    dim = x_D.shape[-1]
    if width <= dim:
        return x_D[..., :width]
    xp = array_namespace(x_D)
    shape = (*x_D.shape[:-1], width - dim)
    zeros = xp.zeros(shape, dtype=x_D.dtype, device=x_D.device)
    return xp.concat([x_D, zeros], axis=-1)


def pieces(x: Array, unit: int = 1) -> list[slice]:
    """Slices of the last axis that fit into a cache, each of whole units.

    Tensors are left in one piece, since few calls are fastest on an accelerator.
    """
    dim = x.shape[-1]
    if not is_numpy(x):
        return [slice(0, dim)]
    width = unit * max(1, BLOCK * dim // max(1, x.size * unit))
    return [slice(at, min(dim, at + width)) for at in range(0, dim, width)]


def row_pieces(groups: Iterable[tuple[int, int]]) -> Iterator[Piece]:
    """Pieces of a vector of rows that fit into a cache.

    Args:
        groups: the size of a row and the number of rows, for each group of rows.
    """
    at = row = 0
    for size, count in groups:
        some = max(1, BLOCK // max(1, size))  # rows at once
        for first in range(row, row + count, some):
            rows = slice(first, min(first + some, row + count))
            end = at + (rows.stop - rows.start) * size
            for start in range(at, end, BLOCK):
                stop = min(end, start + BLOCK)
                yield Piece(slice(start, stop), rows, min(size, stop - start))
            at = end
        row += count


def top_k_indices(magnitude: Array, k: int) -> Array:
    """Returns places of the ``k`` largest of values ≥ 0, ascending, ``(..., k)``."""
    if is_numpy(magnitude):
        return largest_indices(magnitude, k)
    return magnitude.topk(k, dim=-1, sorted=False).indices.sort(dim=-1).values


def above(x_D: Array, threshold: int, most: int) -> Array | None:
    """Returns places of magnitudes above a threshold, ascending; None beyond ``most``.

    Args:
        x_D: float32 values.
        threshold: the bits of a float32 number that is not negative, or -1.
        most: the number of places that the caller can use.
    """
    xp = array_namespace(x_D)
    found, count = [], 0
    for part in pieces(x_D):
        near = xp.nonzero((x_D[part].view(xp.int32) & _MAGNITUDE) > threshold)[0]
        count += len(near)
        if count > most:
            return None
        found.append(near + part.start)
    return xp.concat(found)


Above = Callable[[Array, int, int], Array | None]


def largest_indices(x: Array, k: int, above: Above = above) -> Array:
    """Returns the places of the ``k`` largest magnitudes, ascending, ``(..., k)``.

    Args:
        x: values, shape (..., D).
        k: how many.
        above: finds what :func:`above` finds, perhaps faster.
    """
    if not is_numpy(x):
        return top_k_indices(array_namespace(x).abs(x), k)
    if x.ndim > 1:
        return np.stack([largest_indices(row, k, above) for row in x])
    return _top_k(x, k, above)


def _top_k(x_D: Any, k: int, above: Above) -> Any:
    """Returns the k largest; of equal values the first ones, on every processor."""
    if k >= len(x_D):
        return np.arange(len(x_D))
    places_C, bits_C = _candidates(np.asarray(x_D, np.float32, order="C"), k, above)
    least = _kth_largest(bits_C, k)
    chosen_C = bits_C > least
    missing = k - np.count_nonzero(chosen_C)
    chosen_C[np.flatnonzero(bits_C == least)[:missing]] = True
    return np.flatnonzero(chosen_C) if places_C is None else places_C[chosen_C]


def _candidates(x_D: Any, k: int, above: Above) -> tuple[Any, Any]:
    """Returns places of at least k largest values, and their bits without signs.

    They are all values above a threshold that is guessed from a sample. If the guess is
    bad, or most values may be among the largest, all values are candidates, and the
    places are None.
    """
    # The bits of floats without their signs are ordered as magnitudes are.
    bits_D, dim = x_D.view(np.uint32), len(x_D)
    sample = bits_D[:: max(1, dim // _SAMPLE)] & _MAGNITUDE
    share = k / dim * len(sample)
    rank = int(share + 4 * share**0.5 + 4)  # four deviations of the count are enough
    if 2 * rank < len(sample):
        sample.sort()
        most = max(4 * k + _SAMPLE, dim // 16)  # few, and a guess is seldom so bad
        places = above(x_D, int(sample[-rank]) - 1, most)
        if places is not None and len(places) >= k:
            return places, bits_D[places] & _MAGNITUDE
    return None, bits_D & _MAGNITUDE


def _kth_largest(bits_D: Any, k: int) -> int:
    size = len(bits_D)
    if size < 1 << 16:
        return int(np.sort(bits_D)[size - k])
    # Two histograms of 16 bits each. On a gap that is mostly zeros, partitioning takes
    # up to a hundred times as long: 400 ms of a million values instead of 4.
    high_D = bits_D >> 16
    high, rank = _kth_in_histogram(high_D, k)
    low, _ = _kth_in_histogram(bits_D[high_D == high] & 0xFFFF, rank)
    return high << 16 | low


def _kth_in_histogram(numbers: Any, k: int) -> tuple[int, int]:
    """Returns the k-th largest of 16-bit numbers, and its rank among its equals."""
    counts = np.bincount(numbers, minlength=1 << 16)[::-1]
    sums = np.cumsum(counts)
    place = int(np.searchsorted(sums, k))
    return (1 << 16) - 1 - place, k - int(sums[place] - counts[place])


def take(x: Array, indices: Array) -> Array:
    """Returns ``x[..., indices]`` row by row."""
    if is_numpy(x):
        return np.take_along_axis(x, indices, axis=-1)
    return x.gather(-1, indices)


def scatter(size: int, indices: Array, values: Array) -> Array:
    """Zeros of the given size with ``values`` at ``indices``, row by row."""
    xp = array_namespace(values)
    if is_numpy(values):
        dense = np.zeros((*values.shape[:-1], size), values.dtype)
        if values.ndim == 1:
            dense[indices] = values
            return dense
        np.put_along_axis(dense, indices, values, axis=-1)
        return dense
    dense = xp.zeros(
        (*values.shape[:-1], size), dtype=values.dtype, device=values.device
    )
    return dense.scatter_(-1, indices, values)


def finite(x: Array) -> bool:
    """Returns whether no value is NaN or infinite."""
    xp = array_namespace(x)
    return bool(xp.all(xp.isfinite(x)))


def norms(x: Array) -> Any:
    """Returns the Euclidean norms along the last axis, of shape ``x.shape[:-1]``.

    The norm of a single vector is summed in double precision. Norms of a stack (N, D)
    are summed in single precision, and again in double precision where that overflows.
    """
    x = as_numpy(x)
    if x.ndim == 1:
        return np.float64(norm(x))
    with np.errstate(over="ignore", invalid="ignore"):
        norm_N = np.sqrt(np.einsum("nd,nd->n", x, x))
    for row in np.flatnonzero(~np.isfinite(norm_N)).tolist():
        norm_N[row] = np.sqrt(np.square(x[row], dtype=np.float64).sum())
    return norm_N


def norm(x_D: Array) -> float:
    """Returns the Euclidean norm, summed in double precision.

    A large vector is summed in parts, so that no copy of the whole is made.
    """
    flat = as_numpy(x_D).reshape(-1)
    if flat.dtype == np.float64:
        return float(np.sqrt(np.dot(flat, flat)))
    if len(flat) <= LARGE:
        return float(np.linalg.norm(flat.astype(np.float64)))
    return _norm_of_parts(flat[part] for part in _parts(len(flat)))


def norms_of(combined: Callable[[Array, Array], Array], x: Array, y: Array) -> Any:
    """Returns the norms of x + y or x - y without a whole copy of large vectors."""
    if x.ndim > 1 or len(x) <= LARGE or not is_numpy(x):
        return norms(combined(x, y))
    parts = _parts(len(x))
    return np.float64(_norm_of_parts(combined(x[part], y[part]) for part in parts))


def _parts(dim: int) -> Iterator[slice]:
    return (slice(at, at + PART) for at in range(0, dim, PART))


def _norm_of_parts(parts: Iterable[Any]) -> float:
    total = 0.0
    for part in parts:
        values = part.astype(np.float64)
        total += float(np.dot(values, values))
    return float(np.sqrt(total))
