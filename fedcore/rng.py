"""Randomness as a value: a key is named, splittable, and never global.

A key is derived from the run, the client's name and the sequence number, so
that a task draws the same numbers in a real federation, in a simulation and in
a replay. Streams that a peer has to reproduce (the support of ``random_k``) use
:func:`bits`, which is defined by its arithmetic alone.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count as count_from

import numpy as np
import numpy.typing as npt

_STEP, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1
_FACTOR_1, _FACTOR_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GOLDEN = np.uint64(_STEP)
_MIX = tuple(  # shifts and factors
    (np.uint64(shift), np.uint64(factor))
    for shift, factor in ((30, _FACTOR_1), (27, _FACTOR_2))
)
_LAST_SHIFT = np.uint64(31)
_WEYL = np.uint32(0x9E3779B9)
_NOISE_1 = np.uint32(0x21F0AAAD)
_NOISE_2 = np.uint32(0xD35A2D97)
_AHEAD = 128  # words that are drawn at once where nobody knows how many are needed
_CHUNK = 1 << 14  # words; two arrays of them fit a core's L2 cache

Words = npt.NDArray[np.uint64]


def seed_global(key: "Key") -> None:
    """Seeds the global generators of Python and NumPy, from which user code may draw.

    The platform itself draws from keys alone.
    """
    seed = key.seed()
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: TID251, NPY002 -- user code may draw from it


@dataclass(frozen=True, slots=True)
class Key:
    """A named source of randomness."""

    digest: bytes

    @staticmethod
    @lru_cache(maxsize=16)
    def root(seed: int) -> "Key":
        """Returns the key of a run."""
        text = f"latecomer:{seed}".encode()
        return Key(hashlib.blake2b(text, digest_size=16).digest())

    def fold_in(self, *names: str | int) -> "Key":
        """Returns the key of a stream of its own, which these names identify.

        Example:
            >>> key = Key.root(0)
            >>> key.fold_in("client", "ann", "task", 3) == key.fold_in("client", "ann")
            False
        """
        # repr keeps 1 and "1" apart, and the separator keeps ("ab",) from ("a", "b").
        text = "\x1f".join(map(repr, names)).encode()
        return Key(hashlib.blake2b(text, digest_size=16, key=self.digest).digest())

    def generator(self) -> np.random.Generator:
        """Returns a NumPy generator that starts at this key."""
        return np.random.Generator(np.random.PCG64(int.from_bytes(self.digest, "big")))

    def seed(self) -> int:
        """Returns a number below 2^63, for libraries that want one."""
        return int.from_bytes(self.digest[:8], "big") >> 1

    def words(self) -> Iterator[int]:
        """Yields the words of :func:`bits` for this key's seed, one after the other."""
        seed = np.array(self.seed(), np.uint64)
        for start in count_from(0, _AHEAD):
            yield from bits(seed, start, _AHEAD).tolist()


def seeds(key: Key | Sequence[Key]) -> Words:
    """Returns a word for a key, shape ``()``, or one a row of a stack, ``(N,)``."""
    if isinstance(key, Key):
        return np.array(key.seed(), np.uint64)
    return np.array([each.seed() for each in key], np.uint64)


def bits(seed: Words, start: int, count: int) -> Words:
    """Returns words ``start`` to ``start + count`` of each seed's stream, (..., count).

    SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
    Generators", OOPSLA 2014) in counter form: word i is mix(seed + (i+1)·golden).
    """
    counter = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    counter *= _GOLDEN  # modulo 2^64, as all sums and products of arrays are
    z: Words = seed[..., np.newaxis] + counter
    shifted = np.empty_like(z)
    for shift, factor in _MIX:
        np.right_shift(z, shift, out=shifted)
        z ^= shifted
        z *= factor
    np.right_shift(z, _LAST_SHIFT, out=shifted)
    z ^= shifted
    return z


def words(seed_K: Words, place_K: npt.NDArray[np.int64]) -> Words:
    """Returns the word at each place of each seed's stream, elementwise, (K,)."""
    return bits(seed_K + place_K.astype(np.uint64) * _GOLDEN, 0, 1)[..., 0]


def word(seed: int, place: int) -> int:
    """Returns the word at a place of one seed's stream, computed without arrays."""
    z = (seed + (place + 1) * _STEP) & _MASK
    z = ((z ^ z >> 30) * _FACTOR_1) & _MASK
    z = ((z ^ z >> 27) * _FACTOR_2) & _MASK
    return z ^ z >> 31


def uniform(seed: Words, count: int, start: int = 0) -> npt.NDArray[np.float32]:
    """Numbers in [0, 1) on a grid of 2^-24, shape ``seed.shape + (count,)``.

    They are made of words ``start`` to ``start + count`` of each seed's stream.
    """
    drawn = np.empty((*seed.shape, count), np.float32)
    size = max(64, _CHUNK // max(1, seed.size))
    for at in range(0, count, size):  # by chunks, so that the words stay in cache
        part = drawn[..., at : at + size]
        part[...] = bits(seed, start + at, part.shape[-1]) >> np.uint64(40)
        part *= np.float32(2.0**-24)
    return drawn


def noise(seed: Words, count: int, start: int = 0) -> npt.NDArray[np.int32]:
    """Returns whole numbers below 2^24 to round with, shape ``seed.shape + (count,)``.

    They belong to places ``start`` to ``start + count``, modulo 2^32. Each is a hash
    over a Weyl sequence, with the two 32-bit multiplications of Wellons' ``lowbias32``
    (hash-prospector, 2018). The halves of the seed's first word say where the sequence
    begins and what is mixed in. It takes a third of the time of :func:`uniform`, for
    random numbers that need not be unpredictable and that no peer has to reproduce.
    """
    first = bits(seed, 0, 1)
    low, high = first.astype(np.uint32), (first >> np.uint64(32)).astype(np.uint32)
    drawn = np.empty((*seed.shape, count), np.uint32)
    size = max(64, _CHUNK // max(1, seed.size))
    with np.errstate(over="ignore"):
        for at in range(0, count, size):  # by chunks, which stay in cache
            part = drawn[..., at : at + size]
            places = np.arange(start + at, start + at + part.shape[-1])
            np.add(places.astype(np.uint32) * _WEYL, low, out=part)
            part ^= part >> np.uint32(16)
            part += high
            part *= _NOISE_1
            part ^= part >> np.uint32(15)
            part *= _NOISE_2
            part >>= np.uint32(8)
    return drawn.view(np.int32)


def subset(seed: int, size: int, count: int) -> npt.NDArray[np.int64]:
    """Draws ``count`` numbers of ``range(size)``, ascending, from a seed.

    They are the first ``count`` distinct values of ``⌊u·size⌋``, where u runs over the
    seed's stream as 53-bit fractions. More than half of the range is drawn as the
    complement of the rest.
    """
    if count > size // 2:
        keep = np.ones(size, bool)
        keep[_first_distinct(seed, size, size - count)] = False
        return np.flatnonzero(keep)
    return np.sort(_first_distinct(seed, size, count))


def _first_distinct(seed: int, size: int, count: int) -> npt.NDArray[np.int64]:
    drawn = np.empty(0, np.int64)
    start, word = 0, np.array(seed, np.uint64)
    while True:
        more = max(64, 2 * (count - len(drawn)))
        fractions = (bits(word, start, more) >> np.uint64(11)).astype(
            np.float64
        ) * 2.0**-53
        drawn = np.concatenate([drawn, np.floor(fractions * size).astype(np.int64)])
        start += more
        distinct, first = np.unique(drawn, return_index=True)
        if len(distinct) >= count:
            return drawn[np.sort(first)[:count]]
