"""First come, first served: whoever has waited longest."""

from typing import ClassVar, Literal

from fedcore.selection.base import Selection, SelectionConfig


class All(SelectionConfig):
    """Everyone, in the order of arrival, as long as there is room."""

    kind: Literal["all"] = "all"
    in_turn: ClassVar[bool] = True

    def build(self) -> Selection:
        """The rule."""
        return Selection(lambda candidates, key: candidates)
