"""Shuffles names lazily: the cost depends on how many are taken."""

from collections.abc import Iterator, Sequence

from fedcore.rng import Key


def shuffle(candidates: Sequence[str], key: Key) -> Iterator[str]:
    """Shuffles by the method of Fisher and Yates; keeps only the swapped places."""
    count, swapped = len(candidates), dict[int, int]()
    for place, word in zip(range(count), key.words(), strict=False):
        other = place + (word * (count - place) >> 64)
        yield candidates[swapped.get(other, other)]
        swapped[other] = swapped.pop(place, place)
