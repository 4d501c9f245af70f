"""The contract of selection: who joins a cohort."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.rng import Key


class Selection(NamedTuple):
    """``choose(candidates, count, key)``: at most ``count`` of the candidates.

    They come in the order of arrival if the rule is ``in_turn``, otherwise by name, so
    that the same clients and the same key make the same choice.
    """

    choose: Callable[[Sequence[str], int, Key], list[str]]


class SelectionConfig(Method):
    """Settings of a selection rule."""

    role: ClassVar[str] = "selection"
    in_turn: ClassVar[bool] = False
    """Whether it matters who has waited longest."""

    @abstractmethod
    def build(self) -> Selection:
        """The rule."""


AnySelection = Annotated[SelectionConfig, OneOf()]
