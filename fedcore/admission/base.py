"""The contract of admission: which updates are worth using at all.

``admit`` decides, ``observe`` takes note. A refused update is not lost: the
client keeps its mass.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, NamedTuple

from fedcore.config import Method, OneOf
from fedcore.typing import Counts, State


class Admission(NamedTuple):
    """``admit(state, samples, counts)`` is None, or why the update is refused."""

    init: Callable[[], State]
    admit: Callable[[State, int, Counts | None], str | None]
    observe: Callable[[State, int, Counts | None], State]


class AdmissionConfig(Method):
    """Settings of an admission rule."""

    role: ClassVar[str] = "admission"
    accepts_all: ClassVar[bool] = False
    """Whether no update is ever refused."""

    @property
    def uses_labels(self) -> bool:
        """Whether clients must tell how often each label was used."""
        return False

    @abstractmethod
    def build(self) -> Admission:
        """The rule."""


AnyAdmission = Annotated[AdmissionConfig, OneOf()]
