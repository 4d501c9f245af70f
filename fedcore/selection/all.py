"""First come, first served: whoever has waited longest."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from fedcore.rng import Key
from fedcore.selection.base import Selection, SelectionConfig


class All(SelectionConfig):
    """Everyone, in the order of arrival, as long as there is room."""

    kind: Literal["all"] = "all"
    in_turn: ClassVar[bool] = True

    def build(self) -> Selection:
        """The rule."""
        return Selection(_choose)


def _choose(candidates: Sequence[str], count: int, key: Key) -> list[str]:
    return list(candidates[:count])
