"""What must be true, computed a second time and in the plainest way.

The ghost knows nothing of snapshots, rings or error memories. It adds up vectors in
double precision from the records of the journal and from what clients did, and the
world compares.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore import payloads
from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator.events import (
    Closed,
    Decided,
    Enrolled,
    Evicted,
    HistoryForked,
    Leased,
    Paused,
    Readmitted,
    Stepped,
    Unpaused,
)
from fedcore.protocol import Verdict
from fedcore.typing import Bytes
from fedrun.journal.store import Row
from tests.protocol.parts import (
    BUFFER,
    INITIAL,
    PLAIN,
    SAMPLES_CAP,
    SPEC,
    Rules,
    halved,
    is_unlucky,
)

Exact = npt.NDArray[np.float64]


class ViolationError(AssertionError):
    """An invariant does not hold."""


def vector(packed: Bytes) -> Exact:
    """What a message says, exactly."""
    return payloads.decode(payloads.unpack(packed, SPEC.sizes)).astype(np.float64)


def nothing() -> Exact:
    return np.zeros(SPEC.dim)


def differ(have: npt.NDArray[Any], want: Exact, tolerance: float) -> bool:
    """Whether two vectors are further apart than rounding explains."""
    return not bool((np.abs(have.astype(np.float64) - want) <= tolerance).all())


@dataclass
class ServerGhost:
    """The server's history so far, from its records."""

    accepted: dict[tuple[str, int], Exact] = field(default_factory=dict)
    exact: Exact = field(default_factory=lambda: INITIAL.astype(np.float64))
    public: Exact = field(default_factory=lambda: INITIAL.astype(np.float64))
    waiting: Exact = field(default_factory=nothing)
    samples: float = 0.0
    epochs: list[str] = field(default_factory=list)
    tolerance: float = 0.0
    rules: Rules = PLAIN
    momentum: Exact = field(default_factory=nothing)
    square: Exact = field(default_factory=lambda: np.ones(SPEC.dim))
    stale: int = 0  # accepted updates of tasks that were late
    learnt: int = 0  # accepted updates of tasks
    synchronous: bool = False
    places: int = BUFFER  # of a client in a version
    entered: Counter[str] = field(default_factory=Counter)  # by client, this version
    tasked: set[str] = field(default_factory=set)  # clients that had a task's verdict
    flushed: set[str] = field(default_factory=set)  # clients that sent a farewell
    closed: bool = False
    paused: bool = False
    names: dict[str, str] = field(default_factory=dict)  # of client ids
    out: set[str] = field(default_factory=set)  # names of evicted clients

    @classmethod
    def of(
        cls,
        records: Iterable[Row],
        tolerance: float,
        rules: Rules,
        algorithm: AlgorithmConfig,
    ) -> "ServerGhost":
        ghost = cls(tolerance=tolerance, rules=rules)
        ghost.synchronous = algorithm.synchronous
        ghost.places = 1 if algorithm.synchronous else algorithm.places or BUFFER
        for record in records:
            ghost.apply(record)
        return ghost

    def apply(self, record: Row) -> None:
        self.check_operator(record)
        if isinstance(record, Decided):
            self.check_decision(record)
            if record.task:
                self.tasked.add(record.cid)
        if isinstance(record, Decided) and record.verdict is Verdict.ACCEPTED:
            name = (record.cid, record.seq)
            if name in self.accepted:
                raise ViolationError(f"I2: message {name} counts twice in one history")
            self.accepted[name] = vector(record.payload)
            samples = float(min(record.samples, SAMPLES_CAP))
            share = 1.0 if self.rules.weigh_by == "updates" else samples
            self.waiting = self.waiting + record.weight * share * self.accepted[name]
            self.samples += share
            self.check_vote(record)
        elif isinstance(record, Closed):
            self.closed = True
        elif isinstance(record, Stepped):
            if record.samples != self.samples:
                raise ViolationError(
                    f"I3: a step over {record.samples}, not {self.samples}"
                )
            self.exact = self.exact - self.moved(self.waiting / self.samples)
            before = self.public
            # Without compression nothing is published but X itself (I8).
            sent = record.payload
            self.public = before - vector(sent) if sent else self.exact
            self.check_contraction(before)
            self.waiting, self.samples, self.entered = nothing(), 0.0, Counter()
        elif isinstance(record, HistoryForked):
            if record.epoch in self.epochs:
                raise ViolationError(f"two histories have the name {record.epoch}")
            self.epochs.append(record.epoch)

    def check_vote(self, record: Decided) -> None:
        """I20: a client counts once in a cohort, and in a buffer for its places.

        Beside that, who leaves sends the rest of its memory, once; whoever never had a
        task has none.
        """
        cid = record.cid
        if record.task:
            self.stale += record.staleness > 0
            self.learnt += 1
        else:
            if cid in self.flushed or cid not in self.tasked or record.steps:
                raise ViolationError(f"I20: {record} has no task")
            self.flushed.add(cid)
        if record.task or self.synchronous:
            self.entered[cid] += 1
        if self.entered[cid] > self.places:
            raise ViolationError(f"I20: {cid} enters a version {self.entered} times")

    def check_operator(self, record: Row) -> None:
        """I19: a paused run gives no training, takes nothing in, hears no evicted."""
        match record:
            case Paused() | Unpaused():
                if self.paused == isinstance(record, Paused):
                    raise ViolationError(f"I19: {record} changes nothing")
                self.paused = isinstance(record, Paused)
            case Evicted():
                self.out.add(record.name)
            case Readmitted():
                self.out.discard(record.name)
            case Leased(task="train") if self.paused:
                raise ViolationError(f"I19: {record.cid} is given a task in a pause")
            case Decided() if self.paused and not self.closed:
                raise ViolationError(f"I19: {record.cid} is decided on in a pause")
            case Enrolled():
                self.names[record.cid] = record.name
        cid = getattr(record, "cid", "")
        is_heard = isinstance(record, Enrolled | Leased | Decided)
        if is_heard and self.names.get(cid) in self.out:
            raise ViolationError(f"I19: {cid} is evicted, and heard: {record}")

    def moved(self, agg: Exact) -> Exact:
        """By how much the server's optimiser moves the model."""
        match self.rules.server:
            case "momentum":
                self.momentum = agg + self.momentum / 2
                return self.momentum
            case "adam":
                self.momentum = (self.momentum + agg) / 2
                self.square = (self.square + agg**2) / 2
                moved: Exact = self.momentum / (np.sqrt(self.square) + 1)
                return moved
            case _:
                return agg

    def check_decision(self, record: Decided) -> None:
        """I17: verdict and weight follow from the decisions before this one."""
        unlucky = is_unlucky(record.samples, self.learnt)
        if record.verdict is Verdict.ACCEPTED:
            want = halved(record.staleness, self.stale)
            if record.weight != want or unlucky or self.closed:
                raise ViolationError(f"I17: accepted with {record.weight}, not {want}")
        elif record.verdict is Verdict.REJECTED_POLICY and record.task and not unlucky:
            raise ViolationError(f"I17: {record.samples} samples are no bad luck")

    def check_contraction(self, before: Exact) -> None:
        """I6: the gap between public and exact model never grows by a message."""
        gap, old = self.public - self.exact, before - self.exact
        if float(gap @ gap) > float(old @ old) + self.tolerance:
            raise ViolationError("I6: publishing a message widened the gap W - X")


@dataclass
class ClientGhost:
    """What a client has learnt, and where mass left the protocol for good."""

    raw: Exact = field(default_factory=nothing)
    discarded: Exact = field(default_factory=nothing)
    lost: Exact = field(default_factory=nothing)
    # messages that fell out of the client's own history, as it last saw them
    forgotten: dict[int, tuple[Exact, bool]] = field(default_factory=dict)
    local: Exact | None = None  # the client's own model, where clients overlap

    def copy(self) -> "ClientGhost":
        return replace(self, forgotten=dict(self.forgotten))
