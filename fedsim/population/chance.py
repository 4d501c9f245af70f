"""Random numbers that are a function of purpose, device and number alone.

Each purpose has a key, each device a seed of that key, and each number (a task, a day,
a stretch) a word of that seed's stream. The order of the questions therefore does not
matter.
"""

from array import array
from collections.abc import Callable
from functools import cached_property

import numpy as np

from fedcore.distributions import DistributionConfig, Floats
from fedcore.rng import Key, bits, word, words
from fedcore.rng import seeds as seeds_of
from fedcore.typing import Indices

# Values are drawn for 64 devices and 16 numbers of each at once; shorter arrays take
# nearly as long.
_GROUP, _PART = 6, 4
_WHO = np.repeat(np.arange(1 << _GROUP, dtype=np.int64), 1 << _PART)
_NUMBER = np.tile(np.arange(1 << _PART, dtype=np.int64), 1 << _GROUP)
_LOW_WHO, _LOW_NUMBER = (1 << _GROUP) - 1, (1 << _PART) - 1
_SPARE = 256  # blocks of 8 kB that are kept beside two for each group
_FRACTION = 2.0**-52


class Chance:
    """Uniform numbers in (0, 1) for one purpose.

    Args:
        key: the key of the purpose.
        count: the number of devices.
    """

    def __init__(self, key: Key, count: int) -> None:
        self.count = -(-count >> _GROUP) << _GROUP  # whole groups
        self._seed_N = bits(seeds_of(key), 0, self.count)

    @cached_property
    def _seeds(self) -> list[int]:
        seeds: list[int] = self._seed_N.tolist()
        return seeds

    def one(self, who: int, number: int) -> float:
        """Returns the number of one device."""
        return ((word(self._seeds[who], number) >> 12) + 0.5) * _FRACTION

    def many(self, who_K: Indices, number_K: Indices) -> Floats:
        """Returns the numbers (K,) of many devices."""
        word_K = words(self._seed_N[who_K], number_K)
        return ((word_K >> np.uint64(12)).astype(np.float64) + 0.5) * _FRACTION

    def each(self, number: int = 0) -> Floats:
        """Returns one number for each device, (count,), padded to whole groups."""
        who_N = np.arange(self.count, dtype=np.int64)
        return self.many(who_N, np.full_like(who_N, number))


class Values:
    """Values of a distribution for one purpose, drawn a block at a time.

    Args:
        chance: uniform numbers.
        transform: the quantile function of the distribution.
    """

    def __init__(self, chance: Chance, transform: Callable[[Floats], Floats]) -> None:
        self._chance, self._transform = chance, transform
        self._most = _SPARE + 2 * (chance.count >> _GROUP)
        self._blocks: dict[tuple[int, int], array[float]] = {}

    @classmethod
    def of(cls, distribution: DistributionConfig, key: Key, count: int) -> "Values":
        """Returns values of a distribution."""
        return cls(Chance(key, count), distribution.quantile)

    def one(self, who: int, number: int) -> float:
        """Returns the value of one device."""
        place = who >> _GROUP, number >> _PART
        block = self._blocks.get(place)
        if block is None:
            block = self._draw(place)
        return block[(who & _LOW_WHO) << _PART | number & _LOW_NUMBER]

    def _draw(self, place: tuple[int, int]) -> "array[float]":
        if len(self._blocks) >= self._most:
            for old in list(self._blocks)[: self._most // 2]:
                del self._blocks[old]
        group, part = place
        who, number = _WHO + (group << _GROUP), _NUMBER + (part << _PART)
        drawn = self._transform(self._chance.many(who, number))
        block = self._blocks[place] = array("d", drawn.tobytes())
        return block
