"""Golomb-Rice code of whole numbers: ``width`` low bits of each, the rest in unary."""

from typing import Any

import numpy as np

from fedcore.kernels import library
from fedcore.typing import Bytes, Indices


def sum_shifted(numbers_K: Indices, width: int) -> int:
    """Sums the numbers, each without its ``width`` lowest bits."""
    kernels = _kernels_for(numbers_K)
    if kernels:
        found: int = kernels.shifted_sum(numbers_K, width)
        return found
    return int((numbers_K >> width).sum())


def rice(numbers_K: Indices, width: int) -> list[Bytes]:
    """Codes numbers ≥ 0 as two streams: low bits, and the rest in unary.

    Bits fill bytes from the low end.
    """
    kernels = _kernels_for(numbers_K)
    if kernels:
        count = len(numbers_K)
        unary_bits = count + sum_shifted(numbers_K, width)
        low_bytes = (count * width + 7) // 8
        out = memoryview(bytearray(low_bytes + (unary_bits + 7) // 8))
        kernels.put_rice(numbers_K, width, out)
        return [out[:low_bytes], out[low_bytes:]]
    ends_K = np.cumsum((numbers_K >> width) + 1)
    unary = np.zeros(int(ends_K[-1]) if len(ends_K) else 0, np.uint8)
    unary[ends_K - 1] = 1
    low = np.asarray(numbers_K, "<u4", order="C").view(np.uint8).reshape(-1, 4)
    low_bits = np.unpackbits(low, axis=-1, count=width, bitorder="little")
    return [
        np.packbits(low_bits, bitorder="little").data,
        np.packbits(unary, bitorder="little").data,
    ]


def read_rice(
    low: Bytes, unary: Bytes, width: int, most: int, count: int
) -> tuple[Indices, int] | None:
    """Reads numbers that :func:`rice` coded, with a compiled loop.

    Args:
        low: the low bits of all numbers.
        unary: the bytes in which the unary parts begin.
        width: the low bits of each number.
        most: the largest unary part.
        count: how many numbers to read.

    Returns:
        The numbers (K,), and how many bytes their unary parts take. None where nothing
        is compiled, and where they are no such numbers: :mod:`fedcore.payloads.rice`
        reads the former, and says what is wrong with the latter.
    """
    kernels = library.compiled
    if kernels is None or not count or most >= 1 << 31:
        return None
    numbers_K = np.empty(count, np.int64)
    used: int = kernels.take_rice(low, unary, width, most, numbers_K)
    return (numbers_K, used) if used else None


def _kernels_for(numbers_K: Indices) -> Any:
    """Returns the compiled module for int64 numbers in one piece, else None."""
    simple = numbers_K.dtype == np.int64 and numbers_K.flags.c_contiguous
    return library.compiled if simple else None
