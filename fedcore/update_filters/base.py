"""The contract of update filters: which updates are used at all.

``refusal`` decides on an update, and ``observe`` learns from an accepted one. A refused
update is not lost: the client adds it back to its error memory.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.typing import Counts, State


class UpdateFilter(NamedTuple):
    """The functions of a filter; ``refusal`` is None, or why an update is refused.

    Both are given the size of the update's task, in samples.
    """

    init: Callable[[], State]
    refusal: Callable[[State, int, Counts | None], str | None]
    observe: Callable[[State, int, Counts | None], State]


class UpdateFilterConfig(Method):
    """Settings of an update filter."""

    role: ClassVar[str] = "update_filter"
    accepts_all: ClassVar[bool] = False
    """Whether no update is ever refused."""

    @property
    def uses_labels(self) -> bool:
        """Whether clients must report how often each label was used."""
        return False

    @abstractmethod
    def build(self) -> UpdateFilter:
        """Returns the filter."""


AnyUpdateFilter = Annotated[UpdateFilterConfig, OneOf()]
