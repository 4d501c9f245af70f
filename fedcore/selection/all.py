"""First come, first served: the client that has waited longest trains next."""

from typing import ClassVar, Literal

from fedcore.selection.base import Selection, SelectionConfig, memoryless


class All(SelectionConfig):
    """All clients, in the order of arrival, as long as there is room."""

    kind: Literal["all"] = "all"
    in_turn: ClassVar[bool] = True

    def build(self) -> Selection:
        """Returns the rule."""
        return memoryless(lambda candidates, key: candidates)
