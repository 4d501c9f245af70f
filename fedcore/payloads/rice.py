"""Golomb-Rice coding of whole numbers that are mostly small.

Golomb, "Run-Length Encodings", IEEE Transactions on Information Theory 1966; Rice and
Plaunt, "Adaptive Variable-Length Coding for Efficient Compression of Spacecraft
Television Data", IEEE Transactions on Communications 1971. A number n is n mod 2^b in
b bits and ⌊n / 2^b⌋ in unary. The two parts travel in streams of their own, so that
both are read without a loop: first b bits of every number, then the unary parts, each
as zeros and a closing one. Bits fill bytes from the low end.
"""

import numpy as np
import numpy.typing as npt

from fedcore.errors import PayloadError
from fedcore.payloads.base import Reader
from fedcore.typing import Bytes

WIDEST = 31  # low bits of a number, at most
Numbers = npt.NDArray[np.int64]


def best_width(numbers_K: Numbers) -> tuple[int, int]:
    """The number of low bits for which the code is shortest, and its bytes."""
    mean = float(numbers_K.mean()) if len(numbers_K) else 0.0
    guess = max(0, int(mean * np.log(2)).bit_length() - 1)
    widths = range(max(0, guess - 1), min(WIDEST, guess + 1) + 1)
    return min(
        ((width, _coded_bytes(numbers_K, width)) for width in widths),
        key=lambda found: found[1],
    )


def _coded_bytes(numbers_K: Numbers, width: int) -> int:
    count = len(numbers_K)
    ones_and_zeros = count + int((numbers_K >> width).sum())
    return _bytes_of(count * width) + _bytes_of(ones_and_zeros)


def _bytes_of(bits: int) -> int:
    return (bits + 7) // 8


def pack_rice(numbers_K: Numbers, width: int) -> list[Bytes]:
    """The two streams of numbers ≥ 0, with ``width`` low bits each."""
    ends_K = np.cumsum((numbers_K >> width) + 1)
    unary = np.zeros(int(ends_K[-1]) if len(ends_K) else 0, np.uint8)
    unary[ends_K - 1] = 1
    low = np.ascontiguousarray(numbers_K, "<u4").view(np.uint8).reshape(-1, 4)
    low_bits = np.unpackbits(low, axis=-1, count=width, bitorder="little")
    return [
        np.packbits(low_bits, bitorder="little").data,
        np.packbits(unary, bitorder="little").data,
    ]


def unpack_rice(reader: Reader, count: int, width: int, span: int) -> Numbers:
    """Reads ``count`` numbers that are at most ``span`` together.

    Raises:
        PayloadError: the message holds no such numbers.
    """
    if width > WIDEST:
        raise PayloadError(f"{width} low bits, expected at most {WIDEST}")
    low = reader.array("u1", _bytes_of(count * width))
    high_K = _unpack_unary(reader, count, count + (span >> width))
    if int(high_K.sum()) > span >> width:
        raise PayloadError(f"numbers that are more than {span} together")
    return high_K if width == 0 else (high_K << width) + _low(low, count, width)


def _low(packed: npt.NDArray[np.uint8], count: int, width: int) -> Numbers:
    """Numbers of ``width`` bits each."""
    starts_K = np.arange(count) * width
    padded = np.concatenate([packed, np.zeros(4, np.uint8)])
    numbers_K = np.zeros(count, np.int64)
    for place in range(_bytes_of(width + 7)):  # a number may begin inside a byte
        numbers_K |= padded[(starts_K >> 3) + place].astype(np.int64) << (8 * place)
    return (numbers_K >> (starts_K & 7)) & ((1 << width) - 1)


def _unpack_unary(reader: Reader, count: int, longest: int) -> Numbers:
    """Lengths of ``count`` runs of zeros, each before a one."""
    if not count:
        return np.zeros(0, np.int64)
    ahead = reader.peek(min(reader.left, _bytes_of(longest)))
    ones = np.flatnonzero(
        np.unpackbits(np.frombuffer(ahead, np.uint8), bitorder="little")
    )
    if len(ones) < count:
        raise PayloadError(f"message ends early: {len(ones)} numbers of {count}")
    reader.bytes(int(ones[count - 1]) // 8 + 1)
    return np.diff(ones[:count], prepend=-1) - 1
