"""Finds the decisions of a replay that differ from those of the recorded run."""

from collections import Counter
from dataclasses import dataclass, field

from fedcore.coordinator.events import Decided
from fedcore.protocol import Verdict


@dataclass
class Weights:
    """The accepted updates of one client."""

    recorded: int = 0
    replayed: int = 0
    recorded_sum: float = 0.0  # Σ λ
    replayed_sum: float = 0.0


@dataclass
class Decisions:
    """Counts of decisions, made anew on the recorded updates."""

    updates: int = 0
    """Updates that the recorded run decided on."""
    left_out: int = 0
    """Those of them that the replay does not see."""
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a verdict became another one."""
    weights: int = 0
    """Updates that both accept, with another λ."""
    largest: float = 0.0
    """The largest change of λ among them."""
    clients: dict[str, Weights] = field(default_factory=dict)
    """By the id of the client."""

    def note(self, recorded: Decided, replayed: Decided | None) -> None:
        """Compares two decisions on one update; None: the replay leaves it out."""
        self.updates += 1
        client = self.clients.setdefault(recorded.cid, Weights())
        was_accepted = recorded.verdict is Verdict.ACCEPTED
        client.recorded += was_accepted
        client.recorded_sum += recorded.weight if was_accepted else 0.0
        if replayed is None:
            self.left_out += 1
            return
        is_accepted = replayed.verdict is Verdict.ACCEPTED
        client.replayed += is_accepted
        client.replayed_sum += replayed.weight if is_accepted else 0.0
        if recorded.verdict is not replayed.verdict:
            self.verdicts[recorded.verdict.value, replayed.verdict.value] += 1
        elif was_accepted and recorded.weight != replayed.weight:
            self.weights += 1
            change = abs(recorded.weight - replayed.weight)
            self.largest = max(self.largest, change)
