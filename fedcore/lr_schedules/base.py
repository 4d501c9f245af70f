"""The contract of learning-rate schedules: a share of the rate for each version.

A client algorithm multiplies its ``lr`` by the share of the version that a task begins
with, so all clients that train one version use one rate, however late they are.
"""

from abc import abstractmethod
from typing import Annotated, ClassVar

from fedcore.config import Method, OneOf


class LRScheduleConfig(Method):
    """Settings of a learning-rate schedule."""

    role: ClassVar[str] = "learning-rate schedule"

    @abstractmethod
    def share(self, version: int) -> float:
        """Returns the factor of the learning rate at a version, above 0."""


AnyLRSchedule = Annotated[LRScheduleConfig, OneOf()]
