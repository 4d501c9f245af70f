"""What the journal holds: decisions with the inputs that they were made of.

The state follows from the records by elementwise arithmetic alone, so that a
restart on another processor restores what was acknowledged. Lazy records tell the
story of the run and change no durable state; losing the last ones loses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from fedcore.coordinator.events import Role
from fedcore.protocol import Epoch, Verdict
from fedcore.typing import Bytes, Seconds

StepReason = Literal["buffer", "deadline", "flush"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolled:
    """A client was enrolled."""

    durable: ClassVar[bool] = True
    at: Seconds
    cid: str
    name: str
    role: Role
    index: int = 0  # its place among ``count`` clients, where data is shared out
    count: int = 1
    owner: str = ""  # of the name, from now on; empty: nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """The operator freed a name: whoever enrols under it next owns it."""

    durable: ClassVar[bool] = True
    at: Seconds
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """An update got its verdict. ``payload`` is what was received."""

    durable: ClassVar[bool] = True
    at: Seconds
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
    counts: tuple[int, ...] | None
    loss: float | None
    nbytes: int
    payload: Bytes  # empty if it was malformed


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """A new version was published. ``payload`` is the message, if it was compressed."""

    durable: ClassVar[bool] = True
    at: Seconds
    version: int
    reason: StepReason
    count: int
    samples: float  # N = Σ n of the buffer
    digest: str  # of the new public model
    gap_norm: float  # ‖W - X‖
    nbytes: int  # of the message; a dense model's if W = X
    payload: Bytes  # empty: W = X


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryForked:
    """A new history begins here."""

    durable: ClassVar[bool] = True
    at: Seconds
    epoch: Epoch
    version: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Records from here on were damaged or missing, and the run goes on without them.

    A new history begins with the next record.
    """

    durable: ClassVar[bool] = True
    at: Seconds
    first: int  # the number that this record has now
    last: int  # the last one that was known
    reason: str
    kept: str  # the folder where what was cut off is, below that of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    """A client left for good."""

    durable: ClassVar[bool] = True
    at: Seconds
    cid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A public model was evaluated."""

    durable: ClassVar[bool] = True
    at: Seconds
    cid: str
    version: int
    values: Mapping[str, float]
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The run has ended."""

    durable: ClassVar[bool] = True
    at: Seconds
    version: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed:
    """An ended run goes on, since its ``stop`` was changed."""

    durable: ClassVar[bool] = True
    at: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A client was given a task."""

    durable: ClassVar[bool] = False
    at: Seconds
    cid: str
    version: int
    task: Literal["train", "evaluate"]
    patch: str
    nbytes: int  # of the patch


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A user's code raised on a client; the federation goes on."""

    durable: ClassVar[bool] = False
    at: Seconds
    cid: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A user's code left samples out of a task, and said why."""

    durable: ClassVar[bool] = False
    at: Seconds
    cid: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A client was not heard of for too long."""

    durable: ClassVar[bool] = False
    at: Seconds
    cid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproved:
    """A client claimed a later state than the server's, and did not prove it.

    An honest client is asked for its proofs once after each silent rollback. ``count``
    is how many such claims, of anybody, there were since it was noted last.
    """

    durable: ClassVar[bool] = False
    at: Seconds
    cid: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStarted:
    """A server process began to serve the run."""

    durable: ClassVar[bool] = False
    at: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStopped:
    """It was told to stop, or the run had ended; a process that is killed writes none.

    Where none comes before the next start, the process ended with the record before.
    """

    durable: ClassVar[bool] = False
    at: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallied:
    """Leases and decisions of a simulation, many in one; their updates are not kept."""

    durable: ClassVar[bool] = False
    at: Seconds
    count: int
    columns: str  # packed (fedrun.journal.tally)


# Those that move no model.
Note = (
    Enrolled
    | Freed
    | HistoryForked
    | Cut
    | Departed
    | Evaluated
    | Closed
    | RunResumed
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
