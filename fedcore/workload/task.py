"""A task's client, and the inputs of a task beside the model and the data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fedcore.clients import ClientAlgorithmConfig
from fedcore.rng import Key
from fedcore.typing import State


@dataclass(frozen=True, slots=True)
class Client:
    """Which client asks for its data, or trains.

    Attributes:
        name: the client's name in the run.
        index: its place among ``count`` clients, where one data set is shared out.
        count: how many clients share the data set.
        args: what was given with ``--data key=value``.
    """

    name: str
    index: int = 0
    count: int = 1
    args: Mapping[str, str] = field(default_factory=dict)


NOBODY = Client("")


class LocalTask(NamedTuple):
    """One task of one client."""

    config: ClientAlgorithmConfig
    """Of the client algorithm, for the version that the task begins with."""
    key: Key
    """The task's randomness."""
    kept: State = None
    """What the client has kept from its task before."""
    work: float = 1.0
    """How much it does, as a share of the usual; above 0."""
    version: int = 0
    client: Client = NOBODY
    counts_labels: bool = True
    wanted: int | None = None
    """How many samples the steps use, before ``work``; None: the usual number."""

    def step_count(self, samples: int) -> int:
        """Returns how many steps the task has, for a client with so many samples."""
        return self.config.steps_of(samples, self.work, self.wanted)
