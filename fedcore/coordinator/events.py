"""The events of a coordinator, and the records that it writes of them.

An event comes in; from it follow records, which are durable, and actions
(:mod:`fedcore.coordinator.actions`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from fedcore.measured import Measured
from fedcore.payloads import Payload
from fedcore.protocol import (
    Epoch,
    Pull,
    Push,
    Role,
    Verdict,
)
from fedcore.typing import Bytes, Counts, Seconds

# ------------------------------------------------- a payload that was read before


class Opened(NamedTuple):
    """A payload that was read, or why it could not be read."""

    payload: Payload | None = None
    absurd: str = ""  # why its values cannot be used; empty: they can
    error: Exception | None = None  # raised in place of a payload


# ------------- the records of the journal: decisions, with the inputs that led to them
#
# The state follows from the records by elementwise arithmetic alone, so a restart on
# another processor restores what was acknowledged. Records that are not ``durable``
# describe the run and change no state; losing the last of them loses no update.


StepReason = Literal["buffer", "complete", "deadline", "flush"]
"""Why a version is made: the buffer is full, nobody is left who could still deliver to
the cohort, its deadline has passed, or the run ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Durable:
    """A record that must be on disk before its effects leave the process."""

    durable: ClassVar[bool] = True
    at: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Volatile:
    """A record that describes the run, and may be lost."""

    durable: ClassVar[bool] = False
    at: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolled(_Durable):
    """A client was enrolled."""

    cid: str
    name: str
    role: Role
    index: int = 0  # which of ``count`` parts of the data it has
    count: int = 1
    owner: str = ""  # the owner of the name from now on; empty: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed(_Durable):
    """The operator frees a name: the next client that enrols under it owns it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(_Durable):
    """An update got its verdict. ``payload`` is what was received."""

    cid: str
    seq: int
    digest: str
    base: int
    staleness: int
    verdict: Verdict
    weight: float  # λ
    reason: str
    samples: int
    steps: int
    update_norm: float
    memory_norm: float
    oldest: int | None  # oldest version whose mass was folded back into it
    counts: Counts | None  # of labels
    loss: float | None
    nbytes: int
    payload: Bytes  # empty if it was malformed, or not read
    measured: Measured | None = None  # what its training took
    metrics: Mapping[str, float] | None = None  # of its training, by the user's loop
    task: bool = True  # whether a task stood behind it

    @property
    def was_read(self) -> bool:
        """Whether the server has read the payload, and keeps it."""
        return bool(self.payload) and self.verdict is not Verdict.REJECTED_MALFORMED


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined(_Durable):
    """A task was refused before it was computed; its client may ask again."""

    cid: str
    version: int
    planned: int  # the samples that it would have used
    counts: Counts | None  # the labels that its client announced
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(_Durable):
    """A version was published. ``payload`` is the message, if there is one."""

    version: int
    reason: StepReason
    count: int
    samples: float  # N = Σ n of the buffer
    digest: str  # of the new public model
    gap_norm: float  # ‖W - X‖
    nbytes: int  # of the message; a dense model's if W = X
    payload: Bytes  # empty: W = X


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryForked(_Durable):
    """A new history began, because the server had gone back to an older state."""

    epoch: Epoch
    version: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(_Durable):
    """Records from here on were damaged or missing; the run goes on without them.

    The next record begins a new history.
    """

    first: int  # the number that this record has now
    last: int  # the last one that was known
    reason: str
    kept: str  # the folder below the run's that keeps what was cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed(_Durable):
    """A client leaves for good."""

    cid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated(_Durable):
    """A client has evaluated a public model on ``samples`` samples."""

    cid: str
    version: int
    values: Mapping[str, float]
    samples: int
    text: str = ""
    """What the model wrote; kept for the report, and nothing depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(_Durable):
    """The run has ended."""

    version: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(_Durable):
    """An ended run goes on, because its ``stop`` was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Act(_Durable):
    """An act of an operator: the event that asks for it, and the record of it."""

    by: str = ""  # who the operator is, as the command said; empty: it did not say
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(_Act):
    """The run is paused: nobody is given training until it is resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaused(_Act):
    """The paused run goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicted(_Act):
    """The client of this name is shut out; what it sent before stays."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Readmitted(_Act):
    """An evicted client may come back."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOrdered(_Act):
    """The state after this record is to be written as a snapshot."""

    version: int = 0  # the newest one; noted when the act is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased(_Volatile):
    """A client was given a task."""

    cid: str
    version: int
    task: Literal["train", "evaluate"]
    patch: str
    nbytes: int  # of the patch
    # What the client announced, where the task was judged before it is computed.
    planned: int | None = None
    counts: Counts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(_Volatile):
    """The user's code raised on a client: its task yields no update."""

    cid: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(_Volatile):
    """The user's code left samples out of a task, which goes on, and gave a reason."""

    cid: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(_Volatile):
    """Nothing was heard of a client for too long, or its connection broke."""

    cid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproved(_Volatile):
    """A client claimed a later state than the server's, and did not prove it.

    An honest client is asked for its proofs once after each silent rollback. ``count``
    is the number of such claims, of all clients, since the last record of this kind.
    """

    cid: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStarted(_Volatile):
    """A server process began to serve the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStopped(_Volatile):
    """The server process stopped in good order.

    A process that is killed writes none. If there is none before the next start, the
    process ended after the record before that start.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallied(_Volatile):
    """Many leases and decisions of a simulation; their updates are not kept."""

    count: int
    columns: str  # packed (fedrun.journal.tally)


Act = Paused | Unpaused | Evicted | Readmitted | SnapshotOrdered
"""What an operator does to a run; with an author and a reason."""

Enrolment = Enrolled | Freed | Evicted | Readmitted | Departed
"""Clients come, go, or are shut out."""

# The records that move no model.
Note = (
    Enrolment
    | HistoryForked
    | Cut
    | Declined
    | Evaluated
    | Closed
    | RunResumed
    | Act
    | Failed
    | Leased
    | Lost
    | Skipped
    | Unproved
    | ServerStarted
    | ServerStopped
    | Tallied
)
Record = Note | Decided | Stepped


# ------- the events of the coordinator. Time and fresh random names are fields of them
#
# What an operator does to a run, besides ending it and freeing a name, is its own
# record.


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
    | Freed
    | ClientPulled
    | UpdatePushed
    | Lost
    | Failed
    | Skipped
    | Departed
    | Evaluated
    | TimerFired
    | StopRequested
    | StateRolledBack
    | Act
)
