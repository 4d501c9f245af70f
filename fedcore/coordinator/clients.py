"""What the server keeps of a client: one small row without vectors."""

from collections import deque
from dataclasses import dataclass, field

from fedcore.coordinator.events import Role
from fedcore.protocol import HISTORY, Receipt, Settled, Verdict
from fedcore.typing import JSON


@dataclass(slots=True)
class ClientRow:
    """A client of the run. After the client has left, its row stays."""

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
        """Which part of the data it has where they are shared out: index and count."""
        return self.index, self.count

    @property
    def seq(self) -> int:
        """The sequence number of the last decided message; 0 if there is none."""
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
        """Stores a verdict with its reason."""
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
        """The row that :meth:`to_json` wrote."""
        receipt = None
        if saved["receipt"]:
            seq, digest, verdict, weight, version = saved["receipt"]
            receipt = Receipt(seq, digest, Verdict(verdict), weight, version)
        accepted = deque(saved["accepted"], maxlen=HISTORY)
        return cls(**{**saved, "receipt": receipt, "accepted": accepted})
