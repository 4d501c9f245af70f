"""The events of the coordinator. Time and fresh random names are fields of them.

What an operator does to a run, besides ending it and freeing a name, is its own record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fedcore.coordinator.opened import Opened
from fedcore.coordinator.records import Act
from fedcore.protocol import Epoch, Pull, Push, Role
from fedcore.typing import Seconds


class Timer(NamedTuple):
    """A timer's name: its purpose, and the client and number that it belongs to."""

    kind: Literal["complete", "deadline", "hold", "lease", "stop"]
    subject: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """An event with its time."""

    at: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEnrolled(_Timed):
    """A client asks to take part in the run."""

    cid: str
    name: str
    role: Role = "trainer"
    index: int = 0  # which of ``count`` parts of the data it has
    count: int = 1
    owner: str = ""  # the owner of the name; empty: any client may take it later
    certified: bool = False  # a certificate names this client, so it gets the name


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFreed(_Timed):
    """The operator frees a name: the next client that enrols under it owns it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPulled(_Timed):
    """A client asks for the model and for work."""

    pull: Pull
    fresh_epoch: Epoch  # the name of the new history, if one begins here


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePushed(_Timed):
    """A complete update has arrived."""

    push: Push
    opened: Opened | None = None  # its payload, if it was read before
    is_unread: bool = False  # only its header has arrived


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLost(_Timed):
    """Nothing was heard of a client for too long, or its connection broke."""

    cid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFailed(_Timed):
    """The user's code raised on a client: its task yields no update."""

    cid: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesSkipped(_Timed):
    """The user's code left samples out of a task, which goes on, and gave a reason."""

    cid: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLeft(_Timed):
    """A client has left for good."""

    cid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEvaluated(_Timed):
    """A client has evaluated a public model on ``samples`` samples."""

    cid: str
    version: int
    values: Mapping[str, float]
    samples: int
    text: str = ""
    """What the model wrote, for people to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(_Timed):
    """A timer that was set has fired."""

    timer: Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(_Timed):
    """The operator ends the run."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRolledBack(_Timed):
    """An older state was restored, or the end of the journal was cut off."""

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
    | Act
)
