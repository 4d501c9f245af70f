"""Golomb-Rice coding of whole numbers, most of them small.

Golomb, "Run-Length Encodings", IEEE Transactions on Information Theory 1966; Rice and
Plaunt, "Adaptive Variable-Length Coding for Efficient Compression of Spacecraft
Television Data", IEEE Transactions on Communications 1971. A number n is n mod 2^b in
b bits and ⌊n / 2^b⌋ in unary. The two parts travel in streams of their own, so that
both are read without a loop: first b bits of every number, then the unary parts, each
as zeros and a closing one. Bits fill bytes from the low end.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.errors import PayloadError
from fedcore.kernels import read_rice, sum_shifted
from fedcore.payloads.base import Reader

WIDEST = 31  # low bits of a number, at most
# Read at once: numbers, and bytes of unary parts, which may be eight numbers each.
_NUMBERS, _BYTES = 1 << 12, 1 << 10
Numbers = npt.NDArray[np.int64]


def best_width(numbers_K: Numbers) -> tuple[int, int]:
    """Returns the number of low bits for which the code is shortest, and its bytes."""
    count = len(numbers_K)
    mean = sum_shifted(numbers_K, 0) / count if count else 0.0
    guess = max(0, int(mean * np.log(2)).bit_length() - 1)
    widths = range(max(0, guess - 1), min(WIDEST, guess + 1) + 1)
    return min(
        ((width, _count_coded_bytes(numbers_K, width)) for width in widths),
        key=lambda found: found[1],
    )


def _count_coded_bytes(numbers_K: Numbers, width: int) -> int:
    count = len(numbers_K)
    ones_and_zeros = count + sum_shifted(numbers_K, width)
    return _bytes_of(count * width) + _bytes_of(ones_and_zeros)


def _bytes_of(bits: int) -> int:
    return (bits + 7) // 8


def unpack_rice(
    reader: Reader, count: int, width: int, most: int, dtype: npt.DTypeLike = np.int64
) -> npt.NDArray[Any]:
    """Reads ``count`` numbers.

    Args:
        reader: the message.
        count: how many numbers to read.
        width: the low bits of each number.
        most: the largest number; the caller checks the low bits.
        dtype: the type of the result.

    Raises:
        PayloadError: the message holds no such numbers.
    """
    if width > WIDEST:
        raise PayloadError(f"{width} low bits, expected at most {WIDEST}")
    low = reader.array("u1", _bytes_of(count * width))
    if count <= 8 * reader.left:
        ahead = reader.peek(reader.left)
        found = read_rice(low.data, ahead, width, most >> width, count)
        if found is not None:
            reader.bytes(found[1])
            return found[0].astype(dtype, copy=False)
    numbers_K = _unpack_unary(reader, count, most >> width, dtype)
    if width:
        numbers_K <<= width
        for at in range(0, count, _NUMBERS):  # by chunks that begin with a byte
            some = numbers_K[at : at + _NUMBERS]
            packed = low[at * width // 8 : _bytes_of((at + len(some)) * width)]
            some += _low(packed, len(some), width).astype(dtype)
    return numbers_K


def _low(packed: npt.NDArray[np.uint8], count: int, width: int) -> Numbers:
    """Numbers of ``width`` bits each."""
    starts_K = np.arange(count) * width
    padded = np.concatenate([packed, np.zeros(4, np.uint8)])
    numbers_K = np.zeros(count, np.int64)
    for place in range(_bytes_of(width + 7)):  # a number may begin inside a byte
        numbers_K |= padded[(starts_K >> 3) + place].astype(np.int64) << (8 * place)
    return (numbers_K >> (starts_K & 7)) & ((1 << width) - 1)


def _unpack_unary(
    reader: Reader, count: int, most: int, dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    """Lengths of ``count`` runs of zeros, each before a one, by chunks."""
    ahead = np.frombuffer(reader.peek(reader.left), np.uint8)
    if count > 8 * len(ahead):
        raise PayloadError(f"message ends early: no {count} numbers in it")
    runs_K, done, last = np.empty(count, dtype), 0, -1
    for at in range(0, len(ahead), _BYTES):
        if done == count:
            break
        bits = np.unpackbits(ahead[at : at + _BYTES], bitorder="little")
        ones = np.flatnonzero(bits)[: count - done]
        ones += 8 * at
        if len(ones):
            runs = np.diff(ones, prepend=last) - 1
            if int(runs.max()) > most:
                raise PayloadError(f"{int(runs.max())} zeros, expected at most {most}")
            runs_K[done : done + len(ones)] = runs
            done, last = done + len(ones), int(ones[-1])
    if done < count:
        raise PayloadError(f"message ends early: {done} numbers of {count}")
    reader.bytes(last // 8 + 1)
    return runs_K
