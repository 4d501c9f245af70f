"""The contract of selection: which clients join a cohort."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.measured import TaskReport
from fedcore.rng import Key
from fedcore.typing import State

Order = Callable[[Sequence[str], Key], Iterable[str]]
"""Yields the candidates, the preferred ones first."""


class Selection(NamedTuple):
    """The functions of a selection rule.

    ``order(state, room)`` is called where clients are chosen, and returns how: a
    function of the candidates and a key that yields all of them, the preferred ones
    first. The caller takes the first ``room``. Candidates are given in the order of
    arrival if the rule is ``in_turn``, otherwise by name, so that the same clients and
    the same key lead to the same choice. If the rule learns nothing, they may include
    clients that are not free, which the caller leaves out, so the cost depends on how
    many are chosen and not on how many clients there are.
    """

    init: Callable[[], State]
    order: Callable[[State, int], Order]
    observe: Callable[[State, TaskReport], State] | None = None
    """Learns from a task that has ended; None: the rule learns nothing.

    The state is part of the server's and follows from the records of the journal, so
    this is pure, and uses elementwise arithmetic alone.
    """


def memoryless(order: Order) -> Selection:
    """Returns a rule that depends on the candidates alone."""
    return Selection(lambda: None, lambda state, room: order)


class SelectionConfig(Method):
    """Settings of a selection rule."""

    role: ClassVar[str] = "selection"
    in_turn: ClassVar[bool] = False
    """Whether candidates are given in the order of arrival."""

    @abstractmethod
    def build(self) -> Selection:
        """Returns the rule."""


AnySelection = Annotated[SelectionConfig, OneOf()]
