"""The counts of the proxy, and the figures that follow from them."""

from collections import Counter
from dataclasses import dataclass

from benchmarks.bytes.http2 import COUNT, MESSAGES, PAYLOAD, Tally
from fedcore.typing import JSON


@dataclass(frozen=True, slots=True)
class Count:
    """What the proxy has counted up to a moment."""

    sent: Counter[str]
    tally: Tally
    connections: int
    cuts: int

    @classmethod
    def read(cls, told: JSON) -> "Count":
        """What the proxy says."""
        tally: Tally = Counter({(w, c, k): n for w, c, k, n in told["tally"]})
        sent = Counter(told["sent"])
        return cls(sent, tally, told["connections"], told["cuts"])

    def since(self, before: "Count") -> "Count":
        """What was added."""
        tally, sent = Counter(self.tally), Counter(self.sent)
        tally.subtract(before.tally)
        sent.subtract(before.sent)
        connections = self.connections - before.connections
        return Count(sent, tally, connections, self.cuts - before.cuts)

    @property
    def updates(self) -> int:
        """Updates that were answered."""
        return self.tally["down", "Push", COUNT]

    def payload(self, way: str) -> int:
        """Bytes of updates, or of models and their patches."""
        return self._sum(way, PAYLOAD)

    def framed(self, way: str) -> int:
        """Bytes of whole messages, each with the five bytes before it."""
        return self._sum(way, PAYLOAD, MESSAGES)

    def _sum(self, way: str, *kinds: str) -> int:
        return sum(
            number
            for (which, _, kind), number in self.tally.items()
            if which == way and kind in kinds
        )

    @property
    def balances(self) -> bool:
        """Whether every byte is accounted for; so it is once all is at rest."""
        parts: Counter[str] = Counter()
        for (way, _, kind), number in self.tally.items():
            parts[way] += number if kind != COUNT else 0
        return parts == self.sent

    def overhead(self) -> int:
        """Bytes that were no payload, both ways; of messages that came to an end."""
        return sum(
            number
            for (_, _, kind), number in self.tally.items()
            if kind not in (PAYLOAD, COUNT)
        )
