"""The actions that the coordinator's driver has to carry out.

A driver carries out ``Persist`` before all actions that come after it: nothing that
follows from a record may leave the process before the record is on disk.
"""

from dataclasses import dataclass

from fedcore.controllers import USUAL, Assignment
from fedcore.coordinator.events import Record, Timer
from fedcore.protocol import Ack, Answer, Reply
from fedcore.typing import Seconds


@dataclass(slots=True)
class Lease:
    """Permission for a client to train on one version."""

    cid: str
    version: int
    number: int
    given: Assignment = USUAL
    """What the controllers at the server give the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persist:
    """Write this record."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAck:
    """Answer a push."""

    cid: str
    ack: Ack


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReply:
    """Answer a pull."""

    cid: str
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer a pull without a model, or refuse an enrolment (nonce 0)."""

    cid: str
    nonce: int
    answer: Answer
    retry_after: Seconds = 0.0  # 0: as soon as the driver thinks fit
    reason: str = ""  # why a task was refused before it was computed


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer:
    """Feed ``TimerFired`` at this time."""

    timer: Timer
    at: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTask:
    """Let a simulated client train; it waits for a task without a pull."""

    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Note that the run has ended."""

    reason: str


Action = Persist | SendAck | SendReply | Refuse | SetTimer | StartTask | Finish
