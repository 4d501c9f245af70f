"""The messages between clients and server, whatever carries them.

docs/protocol.md describes the protocol. A model is named by epoch and version: the
epoch is the random name of one history, and a new one begins when an older state was
restored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, Self

from fedcore.measured import Device, Measured
from fedcore.typing import Bytes, Counts, Seconds

Role = Literal["trainer", "evaluator"]
Epoch = str  # 16 hexadecimal digits
Proof = int  # a 64-bit MAC of the server, see fedcore.proofs; 0: none
HISTORY = 16  # H: the decided messages and the histories that both sides remember
LARGEST = 2.0**100  # of an update
LARGEST_SUM = 2.0**123  # of updates times their samples; float32 ends at 2^128
MOST_CLIENTS = 2**32 - 1  # that share data, as many as the wire can count
MOST_COUNTED = 1 << 40  # samples of an update; their sums fit into 64 bits
LONGEST_WAIT: Seconds = 60.0  # until a client asks again that has lost the server


class Verdict(StrEnum):
    """The server's decision on an update; it is stored and final."""

    ACCEPTED = "accepted"
    REJECTED_STALE = "rejected_stale"
    REJECTED_CLOSED = "rejected_closed"
    REJECTED_POLICY = "rejected_policy"
    REJECTED_MALFORMED = "rejected_malformed"
    DISCARDED = "discarded"  # not used, and the client must not send its mass again

    @property
    def returns_mass(self) -> bool:
        """Whether the client adds the message back to its error memory."""
        return self.name.startswith("REJECTED")


class Answer(StrEnum):
    """An answer without a verdict: the server decides and stores nothing."""

    RECEIVED = "received"  # durable, decided later: ask again
    OTHER_EPOCH = "other_epoch"  # pull first
    OBSOLETE = (
        "obsolete"  # an older message than one that was decided, or a client that left
    )
    UNKNOWN = "unknown"  # enrol first
    RETRY = "retry"  # not now
    PROVE = "prove"  # pull again, with proofs of what you claim


class ModelName(NamedTuple):
    """The name of a model: a version of a history."""

    epoch: Epoch
    version: int


class Held(NamedTuple):
    """The public model that a client has on its disk."""

    epoch: Epoch
    version: int
    digest: str  # empty: the client dropped the model, as it was not the server's
    proof: Proof = 0  # that the server published this version


class Settled(NamedTuple):
    """The newest verdict that a client knows; it shows what the server once knew."""

    seq: int = 0  # 0: none yet
    verdict: Verdict | None = None
    proof: Proof = 0  # that the server gave this verdict


class Abandoned(NamedTuple):
    """A history that a client has left."""

    epoch: Epoch
    proof: Proof = 0  # that the server led the client out of it


NOTHING_SETTLED = Settled()


class Receipt(NamedTuple):
    """The server's note on a client's last decided message."""

    seq: int
    digest: str
    verdict: Verdict
    weight: float  # λ
    version: int  # t when it was decided
    proof: Proof = 0  # of the verdict, in the epoch of the reply that brings it


class Plan(NamedTuple):
    """A client's facts about its next task, sent before it asks for the task."""

    samples: int
    """How many it has to train on."""
    counts: Counts | None = None
    """How often each label is among them (C,); None: it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """A client asks for the model, and for work.

    What it says of the past is a claim. It adds proofs when it is asked for them.
    """

    cid: str
    nonce: int
    epoch: Epoch
    held: Held | None = None
    abandoned: tuple[Abandoned, ...] = ()  # the histories that it has left, at most H
    settled: Settled = NOTHING_SETTLED
    history_from: int = 0  # the oldest message that it could still take back
    device: Device | None = None  # where a controller looks at it
    plan: Plan | None = None  # where the update filter judges tasks by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A client's update: one message, named by sequence number and digest."""

    cid: str
    epoch: Epoch
    seq: int
    base: ModelName  # the model that it was trained on
    payload: Bytes
    digest: str  # of the payload
    settled: Settled
    samples: int
    steps: int = 0
    update_norm: float = 0.0  # ‖u‖
    memory_norm: float = 0.0  # ‖e‖ after it
    oldest: ModelName | None = None  # the oldest base of what was folded back into it
    counts: Counts | None = None  # labels per class
    loss: float | None = None
    measured: Measured | None = None  # what the training took
    metrics: Mapping[str, float] | None = None  # that the user's loop returned
    task: Proof = 0  # that the server gave the task; 0: none stands behind it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """The server's answer to a push: a verdict, or none yet."""

    seq: int
    digest: str
    answer: Verdict | Answer
    weight: float = 0.0  # λ
    version: int = 0
    reason: str = ""
    retry_after: Seconds = 0.0
    proof: Proof = 0  # of the verdict, in the epoch of the push


TaskKind = Literal["train", "evaluate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Work for a client; how to do it is in the algorithm that enrolment brought."""

    kind: TaskKind
    evaluate: bool = False  # a trainer shall also evaluate the model
    lease: Seconds = 0.0  # the server expects an update within this time
    proof: Proof = 0  # the right to one update that was trained on this version
    # What the controllers at the server give it (fedcore.controllers.Assignment).
    work: float = 1.0
    density: float = 1.0
    samples: int | None = None


PatchKind = Literal["none", "replay", "overwrite", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """The difference between a client's public model and the server's.

    ``parts`` are the bytes of its packed payloads in order, and ``lengths`` the number
    of bytes of each payload.
    """

    kind: PatchKind
    epoch: Epoch
    start: int  # the version that it applies to; -1: it needs none
    version: int  # the version that it yields
    digest: str  # of that model
    parts: tuple[Bytes, ...] = ()
    lengths: tuple[int, ...] = ()

    @classmethod
    def nothing(cls, epoch: Epoch, version: int, digest: str) -> Self:
        """Returns the patch for a client that has this version."""
        return cls(
            kind="none", epoch=epoch, start=version, version=version, digest=digest
        )

    @property
    def nbytes(self) -> int:
        """The number of bytes that travel."""
        return sum(self.lengths)

    def messages(self) -> list[Bytes]:
        """Returns the packed payloads."""
        if len(self.parts) == len(self.lengths):
            return list(self.parts)
        return split(b"".join(self.parts), self.lengths)


def split(body: Bytes, lengths: Sequence[int]) -> list[Bytes]:
    """Cuts the bytes of a patch into its payloads."""
    view, at, messages = memoryview(body), 0, []
    for length in lengths:
        messages.append(view[at : at + length])
        at += length
    return list(messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The server's answer to a pull."""

    nonce: int
    patch: Patch
    receipt: Receipt | None  # of the client's last decided message
    accepted: tuple[int, ...] = ()  # sequence numbers in this history, if epochs differ
    task: Task | None = None
    done: bool = False  # the run has ended; this is its last model
    retry_after: Seconds = 0.0
    proof: Proof = 0  # that the server has published this version
    left: Proof = 0  # if the epochs differ: that the client was led out of its own
    reason: str = ""  # why there is no task, if the operator has paused the run
