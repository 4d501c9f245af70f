"""What can happen to a server. Time and new randomness come in as fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fedcore.coordinator.opened import Opened
from fedcore.protocol import Epoch, Pull, Push
from fedcore.typing import Seconds

Role = Literal["trainer", "evaluator"]


class Timer(NamedTuple):
    """Which timer: its purpose, and what it is about."""

    kind: Literal["deadline", "hold", "lease", "stop"]
    subject: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEnrolled:
    """A client asks to take part in the run."""

    at: Seconds
    cid: str
    name: str
    role: Role = "trainer"
    index: int = 0  # its place among ``count`` clients, where data is shared out
    count: int = 1
    owner: str = ""  # who takes the name; empty: anybody may, as in a simulation
    certified: bool = False  # it is this client's beyond doubt, whoever took it before


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFreed:
    """The operator gives a name back to everybody."""

    at: Seconds
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPulled:
    """A client asks for the model and for work."""

    at: Seconds
    pull: Pull
    fresh_epoch: Epoch  # the name of the new history, should one have to begin here


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePushed:
    """An update has arrived whole."""

    at: Seconds
    push: Push
    opened: Opened | None = None  # its payload, if that was read beforehand


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLost:
    """A client was not heard of for too long, or its connection broke."""

    at: Seconds
    cid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFailed:
    """A user's code raised; the client is there, but its task comes to nothing."""

    at: Seconds
    cid: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesSkipped:
    """A user's code left samples out of a task, and said why; the task goes on."""

    at: Seconds
    cid: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLeft:
    """A client said goodbye for good."""

    at: Seconds
    cid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEvaluated:
    """Somebody evaluated a public model on ``samples`` samples."""

    at: Seconds
    cid: str
    version: int
    values: Mapping[str, float]
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """The time of a timer has come."""

    at: Seconds
    timer: Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """The operator ends the run."""

    at: Seconds
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRolledBack:
    """An older state was restored, or the end of the journal was cut off."""

    at: Seconds
    fresh_epoch: Epoch
    reason: str


Event = (
    ClientEnrolled
    | NameFreed
    | ClientPulled
    | UpdatePushed
    | ClientLost
    | ClientFailed
    | SamplesSkipped
    | ClientLeft
    | ModelEvaluated
    | TimerFired
    | StopRequested
    | StateRolledBack
)
