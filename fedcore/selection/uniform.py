"""A uniform sample without replacement (McMahan et al., AISTATS 2017)."""

from collections.abc import Iterator, Sequence
from typing import Literal

from fedcore.rng import Key
from fedcore.selection.base import Selection, SelectionConfig


class UniformSelection(SelectionConfig):
    """Each idle client is chosen with the same probability."""

    kind: Literal["uniform"] = "uniform"

    def build(self) -> Selection:
        """Returns the rule."""
        return Selection(_order)


def _order(candidates: Sequence[str], key: Key) -> Iterator[str]:
    """Shuffles by the method of Fisher and Yates; keeps only the swapped places."""
    count, swapped = len(candidates), dict[int, int]()
    for place, word in zip(range(count), key.words(), strict=False):
        other = place + (word * (count - place) >> 64)
        yield candidates[swapped.get(other, other)]
        swapped[other] = swapped.pop(place, place)
