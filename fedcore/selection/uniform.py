"""A uniform sample without replacement (McMahan et al., AISTATS 2017)."""

from collections.abc import Sequence
from typing import Literal

from fedcore.rng import Key
from fedcore.selection.base import Selection, SelectionConfig


class UniformSelection(SelectionConfig):
    """Every idle client is as likely as any other."""

    kind: Literal["uniform"] = "uniform"

    def build(self) -> Selection:
        """The rule."""
        return Selection(_choose)


def _choose(candidates: Sequence[str], count: int, key: Key) -> list[str]:
    if len(candidates) <= count:
        return list(candidates)
    chosen = key.generator().choice(len(candidates), count, replace=False)
    return [candidates[i] for i in sorted(chosen.tolist())]
