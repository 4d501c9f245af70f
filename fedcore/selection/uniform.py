"""A uniform sample without replacement (McMahan et al., AISTATS 2017)."""

from collections.abc import Iterator, Sequence
from typing import Literal

from fedcore.rng import Key
from fedcore.selection.base import Selection, SelectionConfig


class UniformSelection(SelectionConfig):
    """Every idle client is as likely as any other."""

    kind: Literal["uniform"] = "uniform"

    def build(self) -> Selection:
        """The rule."""
        return Selection(_order)


def _order(candidates: Sequence[str], key: Key) -> Iterator[str]:
    """The shuffle of Fisher and Yates, of which only what was swapped is kept."""
    count, swapped = len(candidates), dict[int, int]()
    for place, word in zip(range(count), key.words(), strict=False):
        other = place + (word * (count - place) >> 64)
        yield candidates[swapped.get(other, other)]
        swapped[other] = swapped.pop(place, place)
