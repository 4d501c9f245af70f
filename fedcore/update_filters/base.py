"""The contract of update filters: which updates are worth using at all.

``refusal`` decides, ``observe`` takes note. A refused update is not lost: the
client keeps its mass.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.typing import Counts, State


class UpdateFilter(NamedTuple):
    """``refusal(state, samples, counts)`` is None, or why the update is refused."""

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
        """Whether clients must tell how often each label was used."""
        return False

    @abstractmethod
    def build(self) -> UpdateFilter:
        """The rule."""


AnyUpdateFilter = Annotated[UpdateFilterConfig, OneOf()]
