"""The state that a client must not forget, and the words of its protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from fedcore.controllers import USUAL, Assignment
from fedcore.errors import LatecomerError
from fedcore.measured import Measured
from fedcore.protocol import (
    NOTHING_SETTLED,
    Abandoned,
    Epoch,
    Held,
    ModelName,
    Push,
    Settled,
)
from fedcore.typing import Bytes, Counts, State, Vector


class OutdatedError(LatecomerError):
    """The state on this disk is older than what the client once was: enrol anew."""


class WrongModelError(LatecomerError):
    """A patch led to another model than the server's: ask for the full one."""


class Outcome(Enum):
    """The next step after an answer to a push."""

    SETTLED = "settled"
    RETRY = "retry"  # the same bytes, later
    PULL = "pull"  # reconcile first
    ENROL = "enrol"  # the server does not know this client
    IGNORED = "ignored"  # not the answer to the message in flight


class Trained(NamedTuple):
    """The yield of one task. ``delta_D`` = W - w: subtracting it moves downhill."""

    delta_D: Vector
    samples: int
    steps: int = 0
    loss: float | None = None
    counts: Counts | None = None
    kept: State = None  # what the client algorithm keeps from task to task
    skipped: int = 0  # samples that the user's code left out,
    why: str = ""  # and why it left out the last ones
    used: int = 0  # samples that the steps used, each as often as it was used
    measured: Measured | None = None
    metrics: Mapping[str, float] | None = None  # that the user's own loop returned


@dataclass(frozen=True, slots=True)
class Pending:
    """The message in flight, and the memory that is left if it counts."""

    push: Push
    residual_D: Vector | None


@dataclass(frozen=True, slots=True)
class Sent:
    """A decided message, on which a restored server may have decided otherwise."""

    seq: int
    payload: Bytes
    in_model: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """The mass that is neither in the model nor in the memory, as norms."""

    accepted: int = 0
    rejected: int = 0
    discarded: float = 0.0
    capped: float = 0.0
    lost: float = 0.0  # rejected or left over where there is no memory
    nonfinite: int = 0


@dataclass(frozen=True, slots=True)
class ParticipantState:
    """Everything that a client must not forget."""

    cid: str
    run_id: str
    epoch: Epoch
    held: Held | None = None
    public_D: Vector | None = None
    memory_D: Vector | None = None  # e; None where the algorithm has no memory
    recalled: State = None  # what the uplink needs of the last decided message
    seq: int = 0
    settled: Settled = NOTHING_SETTLED
    pending: Pending | None = None
    history: tuple[Sent, ...] = ()
    abandoned: tuple[Abandoned, ...] = ()  # the last H histories that it has left
    oldest: ModelName | None = None  # the oldest base of what was folded back into e
    kept: State = None
    keeper: str = ""  # the kind of the client algorithm that keeps it; "": unknown
    ledger: Ledger = Ledger()
    controlled: State = None  # of the controllers; None: they have seen nothing
    patch: int = 0  # bytes of the last download, and about those of the next one
    work: float = 1.0  # share of the local work; halved when updates come too late
    given: Assignment = USUAL  # of this task, by the server; never saved
    complaint: str = ""  # why the last message was malformed
    left: bool = False

    def noting(self, **entries: float) -> "ParticipantState":
        """Returns the state with other entries in its ledger."""
        return replace(self, ledger=replace(self.ledger, **entries))  # type: ignore[arg-type]
