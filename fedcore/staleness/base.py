"""The contract of staleness policies: how much a late update counts.

``weigh`` decides λ in (0, 1]; ``observe`` then takes note of what was decided.
The two are apart because the journal holds the decision: a replay only observes,
with elementwise arithmetic, and so is exact on another processor.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.typing import Counts, State

LEAST = 2.0**-126  # the smallest normal float32: no weight underflows to nothing


class StalenessPolicy(NamedTuple):
    """λ of an update, given its staleness in versions and its label counts (C,)."""

    init: Callable[[], State]
    """The state before the first update."""
    weigh: Callable[[State, int, Counts | None], float]
    """λ in (0, 1]; changes no state."""
    observe: Callable[[State, int, Counts | None, float], State]
    """The state after an update that was accepted with this λ."""
    memoryless: bool = False
    """Whether λ depends on the staleness alone."""


class StalenessConfig(Method):
    """Settings of a staleness policy."""

    role: ClassVar[str] = "staleness policy"

    @property
    def uses_labels(self) -> bool:
        """Whether clients must report their label counts."""
        return False

    @abstractmethod
    def build(self) -> StalenessPolicy:
        """Returns the policy."""


AnyStaleness = Annotated[StalenessConfig, OneOf()]


def memoryless(weigh: Callable[[int], float]) -> StalenessPolicy:
    """Returns a policy without a state.

    Args:
        weigh: returns λ, given the staleness.
    """
    return StalenessPolicy(
        init=lambda: None,
        weigh=lambda state, staleness, counts: max(LEAST, weigh(staleness)),
        observe=lambda state, staleness, counts, weight: state,
        memoryless=True,
    )
