"""The contract of selection: which clients join a cohort."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.rng import Key


class Selection(NamedTuple):
    """``order(candidates, key)`` yields the candidates, the preferred ones first.

    Candidates are given in the order of arrival if the rule is ``in_turn``, otherwise
    by name, so that the same clients and the same key lead to the same choice. The
    caller takes the first ones that are free, so the cost depends on how many are
    chosen and not on how many clients there are.
    """

    order: Callable[[Sequence[str], Key], Iterable[str]]


class SelectionConfig(Method):
    """Settings of a selection rule."""

    role: ClassVar[str] = "selection"
    in_turn: ClassVar[bool] = False
    """Whether candidates are given in the order of arrival."""

    @abstractmethod
    def build(self) -> Selection:
        """Returns the rule."""


AnySelection = Annotated[SelectionConfig, OneOf()]
