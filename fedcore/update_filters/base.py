"""The contract of update filters: which updates are used at all.

``refusal`` decides on an update, ``observe`` learns from one that is used, and
``refused`` from one that is not. A refused update is not lost: the client adds it back
to its error memory. Where ``rest`` is set, a task is refused before it is computed if
its client announces what it has; then nothing was computed, and the client rests.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.protocol import Plan
from fedcore.typing import Counts, Seconds, State


class UpdateFilter(NamedTuple):
    """The functions of a filter; ``refusal`` is None, or why an update is refused.

    All are given the size of the update's task, in samples, and its label counts.
    """

    init: Callable[[], State]
    refusal: Callable[[State, int, Counts | None], str | None]
    observe: Callable[[State, int, Counts | None], State]
    refused: Callable[[State, int, Counts | None], State] | None = None
    """None: nothing is learnt from what is refused."""


class UpdateFilterConfig(Method):
    """Settings of an update filter."""

    role: ClassVar[str] = "update_filter"
    accepts_all: ClassVar[bool] = False
    """Whether no update is ever refused."""

    @property
    def uses_labels(self) -> bool:
        """Whether clients must report how often each label was used."""
        return False

    @property
    def rest(self) -> Seconds | None:
        """The rest of a client whose task is refused before it is computed.

        None: tasks are not judged before, and clients announce nothing.
        """
        return None

    def plan(
        self, samples: int, label_counts: Callable[[], Counts | None] | None
    ) -> Plan | None:
        """Returns what a client announces before it asks for a task.

        Args:
            samples: how many it has to train on.
            label_counts: how often each label is among them (C,); None: that stays
                with the client.

        Returns:
            None where tasks are not judged before, or where there are no samples.
        """
        if self.rest is None or not samples:
            return None
        if label_counts is None or not self.uses_labels:
            return Plan(samples)
        return Plan(samples, label_counts())

    @abstractmethod
    def build(self) -> UpdateFilter:
        """Returns the filter."""


AnyUpdateFilter = Annotated[UpdateFilterConfig, OneOf()]
