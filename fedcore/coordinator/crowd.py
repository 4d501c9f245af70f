"""The same state machine for clients that live in the process of their server.

Nothing can be lost between them, so what remains of a pull is the wish to train, and
of a push the decision on an update. Who may train, what an update counts for, when a
version is made and when a run ends is decided by the lines that serve real clients;
but updates that make no difference to anybody until the buffer is full enter together.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedcore.admission import Everything
from fedcore.coordinator.actions import Action
from fedcore.coordinator.leases import Lease
from fedcore.coordinator.machine import Coordinator
from fedcore.coordinator.state import Arrived
from fedcore.coordinator.verdicts import judge_update
from fedcore.protocol import Verdict
from fedcore.typing import Array, Seconds


class Decision(NamedTuple):
    """What became of an update."""

    verdict: Verdict
    weight: float  # λ
    staleness: int


class CrowdCoordinator(Coordinator):
    """A coordinator that is told of wishes and updates instead of messages."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """As any other coordinator."""
        self.granted: list[tuple[str, Lease]] = []  # tasks, until somebody takes them
        self._delivered = 0  # updates that have arrived and were not decided on
        super().__init__(*args, **settings)

    def ready(self, cid: str, at: Seconds) -> list[Action]:
        """A client waits for a task."""
        self.state.touch(at)
        self.leases.arrive(cid, None)
        return self._start_training()

    def expire(self, cid: str, number: int, at: Seconds) -> list[Action]:
        """A lease ends; the client may still deliver."""
        self.state.touch(at)
        self.leases.expire(cid, number)
        return self._start_training()

    def deliver(self, cid: str, base: int, at: Seconds) -> bool:
        """A client's update has arrived.

        Says whether it must be decided on now, with those that arrived before: it fills
        the buffer, or it is not certain that it is accepted.
        """
        state = self.state
        state.touch(at)
        self.leases.deliver(cid)
        self._delivered += 1
        missing = self.algorithm.config.buffer - state.count
        if self.stop.updates is not None:
            missing = min(missing, self.stop.updates - state.applied - state.count)
        return self._delivered >= missing or not self._is_welcome(base)

    def hand_out(self, at: Seconds) -> list[Action]:
        """Gives tasks to whoever waits and may have one now."""
        self.state.touch(at)
        return self._start_training()

    def _is_welcome(self, base: int) -> bool:
        """Whether an update of sound values is accepted, whatever else arrives."""
        state, algorithm = self.state, self.algorithm
        return (
            state.version - base <= algorithm.config.staleness_limit
            and not state.closed
            and not algorithm.aggregator.mixes_models
            and isinstance(algorithm.config.admission, Everything)
        )

    def enter(
        self, updates: Sequence[Arrived | None], rows_KD: Array | None = None
    ) -> tuple[list[Decision], list[Action]]:
        """Decides on the updates that were delivered, in their order.

        Args:
            updates: None stands for one whose values are not finite.
            rows_KD: what they say, one a row, where they are no payloads.
        """
        state, self._delivered = self.state, 0
        decisions, accepted = list[Decision](), list[int]()
        for place, update in enumerate(updates):
            if update is None:
                decisions.append(Decision(Verdict.DISCARDED, 0.0, 0))
                continue
            staleness = state.version - update.base
            verdict, _, weight = judge_update(
                state, update.base, update.samples, update.counts
            )
            decisions.append(Decision(verdict, weight, staleness))
            if verdict is Verdict.ACCEPTED:
                accepted.append(place)
                state.observe(update, staleness, weight)
        if rows_KD is not None and len(accepted) < len(updates):
            rows_KD = rows_KD[accepted]
        if accepted:
            state.take(
                [each for i in accepted if (each := updates[i]) is not None],
                [decisions[i].weight for i in accepted],
                rows_KD,
            )
        actions: list[Action] = []
        if state.count >= self.algorithm.config.buffer:
            actions += self._step("buffer")
        actions += self._close_if_due()
        return decisions, [*actions, *self._hand_out()]

    def _start_training(self) -> list[Action]:
        if self.state.closed:
            return []
        accepted = self.state.count + self._delivered
        granted = self.leases.grant(self.state.version, accepted)
        if not granted:
            return []
        self.granted += [(cid, lease) for cid, _, lease in granted]
        return self._arm_deadline()
