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
    """λ of an update that was trained ``staleness`` versions ago."""

    init: Callable[[], State]
    weigh: Callable[[State, int, Counts | None], float]
    observe: Callable[[State, int, Counts | None, float], State]
    memoryless: bool = False
    """Whether λ depends on the staleness alone."""


class StalenessConfig(Method):
    """Settings of a staleness policy."""

    role: ClassVar[str] = "staleness policy"

    @property
    def uses_labels(self) -> bool:
        """Whether clients must tell how often each label was used."""
        return False

    @abstractmethod
    def build(self) -> StalenessPolicy:
        """The policy."""


AnyStaleness = Annotated[StalenessConfig, OneOf()]


def memoryless(weigh: Callable[[int], float]) -> StalenessPolicy:
    """A policy that looks at the staleness alone."""
    return StalenessPolicy(
        init=lambda: None,
        weigh=lambda state, staleness, counts: max(LEAST, weigh(staleness)),
        observe=lambda state, staleness, counts, weight: state,
        memoryless=True,
    )
