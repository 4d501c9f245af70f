"""The contract of aggregators: how the updates of a buffer become one.

``accumulate`` owns its state and may write into it. ``share`` is λ·n, the weight
of the update times its samples; ``finalize`` divides by N = Σ n, not by Σ λ·n:
otherwise a uniform λ would cancel, and nothing would be dampened.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol

from fedcore.config import Method, OneOf, Roles
from fedcore.params import ParamSpec
from fedcore.payloads import Payload
from fedcore.typing import Row, State, Vector

Needed = Literal["gap", "pace"]
"""``gap``: X - W_base. The server keeps the models that updates may still start from,
and rejects an update that started from an older one. ``pace``: effort and pace. The
verdict tells a client that claims more steps than it can have been given."""


class Size(Protocol):
    """What a client's settings say of the size of its tasks."""

    def step_count(self, samples: int) -> int:
        """Returns how many steps a whole task has."""

    def effort(self, steps: int) -> float:
        """Returns how many plain steps a task of this many steps stands for."""


class Work(NamedTuple):
    """The work of one task, as its client and the server know it."""

    steps: int
    samples: int
    """Of its client."""
    now: Size
    """By its client's settings for the version that it trained on."""
    first: Size
    """By those for version 0."""

    @property
    def share(self) -> float:
        """The steps that it took, as a share of what the recipe asks for."""
        return self.steps / self.now.step_count(self.samples)

    @property
    def effort(self) -> float:
        """How many plain steps it stands for."""
        return self.now.effort(self.steps)

    @property
    def whole(self) -> float:
        """How many plain steps a whole task of this client on version 0 stands for."""
        return self.first.effort(self.first.step_count(self.samples))


class Contribution(NamedTuple):
    """One accepted update."""

    payload: Payload
    weight: float  # λ
    samples: float  # n, as the recipe counts it
    gap_D: Vector | None  # X - W_base, for aggregators that need it
    client: str = ""  # the id of its client
    clients: int = 0  # the number of clients that have joined and not left
    effort: float = 0.0  # the plain steps of its client's whole tasks; 0: not known
    pace: float = 0.0  # those of this task, of no more steps than clients are given
    work: float = 1.0  # the steps that it took, as a share of what the recipe asks for
    base: int = 0  # the version that it was trained on
    place: tuple[int, int] = (0, 1)  # its client's number, and how many there are
    member: str = ""  # the name of its client, which clients with other keys may share


class Groups(NamedTuple):
    """Groups of clients, each of which trains on a model of its own."""

    of: Callable[[tuple[int, int], int], int]
    """(a client's number and how many there are, version) to its group."""
    model: Callable[[State, Vector, int], Vector]
    """(state, W, group) to the model (D,) of a group. It stays the same until the next
    version."""


class Aggregator(NamedTuple):
    """Folds contributions into one update, in parameter units."""

    init: Callable[[int], State]
    """The state for D values before the first update."""
    accumulate: Callable[[State, Contribution], State]
    """Adds an update to the state."""
    finalize: Callable[[State, float], Vector]
    """The aggregate (D,) of a state, given N = Σ n. It may write into the state, which
    is used again by ``carry`` alone."""
    needs: frozenset[Needed] = frozenset()
    """The fields of a contribution that it needs beside the update."""
    fold: Callable[[State, Sequence[Row], Sequence[float]], State] | None = None
    """Adds dense updates that arrive together, given λ·n of each."""
    carry: Callable[[State], State] | None = None
    """The first state of the next version, given the last one of this version; None:
    it is that of ``init``."""
    groups: Groups | None = None
    """Where clients train on the models of their groups, and not all of them on W. At
    version 0 all models are W."""


def fair_places(buffer: int, clients: int) -> int:
    """Returns how many updates of one client a version takes, without cohorts.

    It is twice the fair share of one of so many clients, and one at least.
    """
    return max(1, 2 * buffer // clients)


class AggregatorConfig(Method):
    """Settings of an aggregator."""

    role: ClassVar[str] = "aggregator"

    def coefficient(self, work: Work) -> float:
        """Returns the factor by which a client multiplies the update of a task.

        What counts differently from task to task is multiplied before the compression,
        since a message also holds what those of earlier tasks have left out.
        """
        return 1.0

    @property
    def multiplies(self) -> bool:
        """Whether the factor of some task may be another one than 1."""
        return type(self).coefficient is not AggregatorConfig.coefficient

    @abstractmethod
    def build(self) -> Aggregator:
        """Returns the aggregator."""

    def build_for(self, spec: ParamSpec) -> Aggregator:
        """Returns the aggregator for updates of this spec."""
        return self.build()

    def build_in(self, roles: Roles, spec: ParamSpec) -> Aggregator:
        """Returns the aggregator in this recipe, for updates of this spec."""
        return self.build_for(spec)


AnyAggregator = Annotated[AggregatorConfig, OneOf()]
