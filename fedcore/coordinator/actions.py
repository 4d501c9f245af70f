"""What the coordinator wants done.

``Persist`` comes first: nothing that follows from a record may leave the process
before the record is on disk.
"""

from dataclasses import dataclass

from fedcore.coordinator.events import Timer
from fedcore.coordinator.records import Record
from fedcore.protocol import Ack, Answer, Reply
from fedcore.typing import Seconds


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
    """Answer a pull, or an enrolment (nonce 0), without a model."""

    cid: str
    nonce: int
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer:
    """Feed ``TimerFired`` at this time."""

    timer: Timer
    at: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run has ended."""

    reason: str


Action = Persist | SendAck | SendReply | Refuse | SetTimer | Finish
