"""What the server keeps of its clients: small rows without vectors."""

from collections import deque
from dataclasses import dataclass, field

from fedcore.protocol import HISTORY, Receipt, Role, Settled, Verdict
from fedcore.typing import JSON


@dataclass(slots=True)
class ClientRow:
    """A client of the run. After the client has left, its row stays."""

    cid: str
    name: str
    role: Role
    index: int = 0  # which of ``count`` parts of the data it has
    count: int = 1
    receipt: Receipt | None = None
    reason: str = ""  # of the last verdict
    accepted: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))
    left: bool = False
    evicted: str | None = None
    """Why the operator has shut it out; None: it may take part."""
    has_trained: bool = False
    """Whether a message of a task of its own has got a verdict."""
    has_flushed: bool = False
    """Whether it has sent what its error memory holds, as it may when it leaves."""
    lost_name: bool = False
    """Whether its name was freed while it was evicted: then it stays out for good."""

    @property
    def place(self) -> tuple[int, int]:
        """Its part of the data: index and count."""
        return self.index, self.count

    @property
    def seq(self) -> int:
        """The sequence number of the last decided message; 0 if there is none."""
        return self.receipt.seq if self.receipt else 0

    @property
    def trains(self) -> bool:
        """Whether it is a trainer that has not left and may take part."""
        return self.role == "trainer" and not self.is_out

    @property
    def is_out(self) -> bool:
        """Whether it has left for good, or is evicted."""
        return self.left or self.evicted is not None

    def contradicts(self, settled: Settled) -> bool:
        """Whether the client knows a later verdict, or another on the same message."""
        if self.receipt is not None and settled.seq == self.receipt.seq:
            return settled.verdict is not self.receipt.verdict
        return settled.seq > self.seq

    def decided(self, receipt: Receipt, reason: str) -> None:
        """Stores a verdict with its reason."""
        self.receipt, self.reason = receipt, reason
        if receipt.verdict is Verdict.ACCEPTED:
            self.accepted.append(receipt.seq)

    def to_json(self) -> JSON:
        """The row as JSON."""
        saved = {
            "cid": self.cid,
            "name": self.name,
            "role": self.role,
            "index": self.index,
            "count": self.count,
            "receipt": self.receipt and self.receipt[:5],  # its proof is made anew
            "reason": self.reason,
            "accepted": list(self.accepted),
            "left": self.left,
            "has_trained": self.has_trained,
        }
        if self.has_flushed:
            saved["has_flushed"] = True
        if self.evicted is None:
            return saved
        return {**saved, "evicted": self.evicted, "lost_name": self.lost_name}

    @classmethod
    def from_json(cls, saved: JSON) -> "ClientRow":
        """The row that :meth:`to_json` wrote."""
        receipt = None
        if saved["receipt"]:
            seq, digest, verdict, weight, version = saved["receipt"]
            receipt = Receipt(seq, digest, Verdict(verdict), weight, version)
        accepted = deque(saved["accepted"], maxlen=HISTORY)
        known = {"has_trained": receipt is not None}  # an older program had no tasks
        return cls(**{**known, **saved, "receipt": receipt, "accepted": accepted})
