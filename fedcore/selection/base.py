"""The contract of selection: who joins a cohort."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.rng import Key


class Selection(NamedTuple):
    """``order(candidates, key)``: the candidates by preference, one after the other.

    They come in the order of arrival if the rule is ``in_turn``, otherwise by name, so
    that the same clients and the same key make the same choice. Whoever asks takes the
    first ones that are free, so a choice costs as much as it chooses, however many
    clients there are.
    """

    order: Callable[[Sequence[str], Key], Iterable[str]]


class SelectionConfig(Method):
    """Settings of a selection rule."""

    role: ClassVar[str] = "selection"
    in_turn: ClassVar[bool] = False
    """Whether it matters who has waited longest."""

    @abstractmethod
    def build(self) -> Selection:
        """The rule."""


AnySelection = Annotated[SelectionConfig, OneOf()]
