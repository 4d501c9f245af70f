"""A uniform sample without replacement (McMahan et al., AISTATS 2017)."""

from typing import Literal

from fedcore.selection._shuffle import shuffle
from fedcore.selection.base import Selection, SelectionConfig, memoryless


class UniformSelection(SelectionConfig):
    """Each idle client is chosen with the same probability."""

    kind: Literal["uniform"] = "uniform"

    def build(self) -> Selection:
        """Returns the rule."""
        return memoryless(shuffle)
