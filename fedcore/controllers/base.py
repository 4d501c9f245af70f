"""The contract of controllers: what a client's next task is to be.

A controller has a half on each client, a half at the server, or both. The half on a
client reads what its transfers reported (``observe``) and says what its next task is
given (``assign``). Its functions are pure. Its state is a tree of small arrays and
numbers, kept on the client's disk and saved together with its messages. Tuples in it
come back from the disk as plain tuples. The half at the server sees the reports of all
clients (:class:`ServerController`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

from fedcore.config import Method, OneOf, Roles
from fedcore.controllers._assignment import Assignment as Assignment
from fedcore.controllers._server import ServerController
from fedcore.controllers._states import States
from fedcore.typing import Seconds, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An observation of a client: an exchange, a finished task or an evaluation."""

    at: Seconds
    """When, in seconds; a day begins at each multiple of 86,400."""
    nbytes: int = 0
    """Bytes that have passed, in either direction."""
    upload_seconds: Seconds | None = None
    """How long an upload took; None: no upload has ended."""
    message: float | None = None
    """The size of a finished task's message, as a share of the model's; None: no task
    has ended."""
    own: Mapping[str, float] | None = None
    """Metrics of the model that the client has just trained, on its own data."""
    public: Mapping[str, float] | None = None
    """Metrics of the model that it has just received, on the same data."""


Wanted = Literal["own", "public"]
NOTHING: frozenset[Wanted] = frozenset()


def _never(state: State, nbytes: int, at: Seconds) -> Seconds:
    return 0.0


class Controller(NamedTuple):
    """The functions of a controller's half on a client."""

    init: Callable[[], State]
    observe: Callable[[State, Report], State]
    assign: Callable[[State], Assignment]
    rest: Callable[[State, int, Seconds], Seconds] = _never
    """``rest(state, nbytes, at)``: how long a client sends nothing before an exchange
    of so many bytes."""
    wants: Callable[[State], frozenset[Wanted]] = lambda state: NOTHING
    """Which models the client is to evaluate on its own data: the one that it trains
    next (``own``), the one that it receives next (``public``)."""


class ControllerConfig(Method):
    """Settings of a controller."""

    role: ClassVar[str] = "controller"
    uses_device: ClassVar[bool] = False
    """Whether clients must report the facts of their devices."""
    evaluates: ClassVar[bool] = False
    """Whether clients evaluate models for it, for which they need data to do so."""

    @property
    def uses_energy(self) -> bool:
        """Whether it looks at the energy that tasks took."""
        return False

    @property
    def is_at_server(self) -> bool:
        """Whether it has a half at the server, which sizes each task."""
        return type(self).build_server is not ControllerConfig.build_server

    @property
    def largest(self) -> Assignment:
        """The largest work and the most samples that it gives a task."""
        return Assignment()

    def build(self) -> Controller | None:
        """Returns the half on a client; None: there is none."""
        return None

    def build_server(self, roles: Roles) -> ServerController | None:
        """Returns the half at the server, in this recipe; None: there is none."""
        return None


AnyController = Annotated[ControllerConfig, OneOf()]


def compose(controllers: Mapping[str, Controller]) -> Controller:
    """Makes several controllers one: shares multiply, the longest rest counts.

    Args:
        controllers: by their kinds.

    Returns:
        A controller whose state is a dict of theirs. A state may lack a controller that
        has joined since; it begins anew. Its ``assign`` raises ConfigError where one
        of them assigns shares that cannot be.
    """
    all_ = States(controllers)

    def rest(state: State, nbytes: int, at: Seconds) -> Seconds:
        return max(half.rest(own, nbytes, at) for _, half, own in all_.each(state))

    def wants(state: State) -> frozenset[Wanted]:
        return NOTHING.union(*(half.wants(own) for _, half, own in all_.each(state)))

    return Controller(all_.init, all_.observe, all_.assign, rest, wants)
