"""What the server knows of a client: one small row, no vector."""

from collections import deque
from dataclasses import dataclass, field

from fedcore.coordinator.events import Role
from fedcore.protocol import HISTORY, Receipt, Settled, Verdict
from fedcore.typing import JSON


@dataclass(slots=True)
class ClientRow:
    """A client of the run. After it left, the row stays as a tombstone."""

    cid: str
    name: str
    role: Role
    index: int = 0  # its place among ``count`` clients, where data is shared out
    count: int = 1
    receipt: Receipt | None = None
    reason: str = ""  # of the last verdict
    accepted: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))
    left: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Which part of data that are shared out it has: index and count."""
        return self.index, self.count

    @property
    def seq(self) -> int:
        """The newest sequence number that was decided; 0 before the first."""
        return self.receipt.seq if self.receipt else 0

    @property
    def trains(self) -> bool:
        """Whether it is a trainer that has not left."""
        return self.role == "trainer" and not self.left

    def contradicts(self, settled: Settled) -> bool:
        """Whether the client knows a later verdict, or another on the same message."""
        if self.receipt is not None and settled.seq == self.receipt.seq:
            return settled.verdict is not self.receipt.verdict
        return settled.seq > self.seq

    def decided(self, receipt: Receipt, reason: str) -> None:
        """Takes note of a verdict."""
        self.receipt, self.reason = receipt, reason
        if receipt.verdict is Verdict.ACCEPTED:
            self.accepted.append(receipt.seq)

    def to_json(self) -> JSON:
        """The row as JSON."""
        return {
            "cid": self.cid,
            "name": self.name,
            "role": self.role,
            "index": self.index,
            "count": self.count,
            "receipt": self.receipt and self.receipt[:5],  # its proof is made anew
            "reason": self.reason,
            "accepted": list(self.accepted),
            "left": self.left,
        }

    @classmethod
    def from_json(cls, saved: JSON) -> "ClientRow":
        """The row that :meth:`to_json` wrote; those of before have no place."""
        receipt = None
        if saved["receipt"]:
            seq, digest, verdict, weight, version = saved["receipt"]
            receipt = Receipt(seq, digest, Verdict(verdict), weight, version)
        accepted = deque(saved["accepted"], maxlen=HISTORY)
        return cls(**{**saved, "receipt": receipt, "accepted": accepted})
