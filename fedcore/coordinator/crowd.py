"""The same state machine for clients that live in the process of their server.

Nothing can be lost between them, so what remains of a pull is the wish to train, and
of a push the decision on an update. Who may train, what an update counts for, when a
version is made and when a run ends is decided by the lines that serve real clients;
but updates that make no difference to anybody until the buffer is full enter together.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedcore.admission import Everything
from fedcore.coordinator.actions import Action, SetTimer
from fedcore.coordinator.events import Timer
from fedcore.coordinator.leases import Lease
from fedcore.coordinator.machine import Coordinator
from fedcore.coordinator.state import Update
from fedcore.coordinator.verdicts import judge_update
from fedcore.protocol import Pull, Verdict
from fedcore.typing import JSON, Row, Seconds


class Decision(NamedTuple):
    """What became of an update."""

    verdict: Verdict
    weight: float  # λ
    staleness: int


class CrowdCoordinator(Coordinator):
    """A coordinator that is told of wishes and updates instead of messages."""

    _deadline_at: Seconds  # if there is a deadline

    def __init__(self, *args: Any, **settings: Any) -> None:
        """As any other coordinator."""
        super().__init__(*args, **settings)
        self.granted: list[tuple[str, Lease]] = []  # tasks, until somebody takes them
        self._delivered = 0  # updates that have arrived and were not decided on
        algorithm = self.algorithm
        self._welcoming = not algorithm.aggregator.mixes_models and isinstance(
            algorithm.config.admission, Everything
        )
        self._look()

    def _look(self) -> None:
        """Takes note of what changes with decisions alone, after which tasks are given.

        An ended run needs none of it.
        """
        state = self.state
        self._version, self._limit = state.version, state.limit
        self._missing = self.algorithm.config.buffer - state.count
        if self.stop.updates is not None:
            self._missing = min(
                self._missing, self.stop.updates - state.applied - state.count
            )

    def ready(self, cid: str, at: Seconds) -> list[Action]:
        """A client waits for a task."""
        self.leases.arrive(cid, None)
        return self._grant(at)

    @property
    def is_settled(self) -> bool:
        """Whether nobody can get a task by arriving, delivering or waiting.

        That may change when the server decides, a lease ends, or a client is lost.
        """
        accepted = self.state.count + self._delivered
        return self.leases.is_settled(accepted) and self.state.closed is None

    def wait(self, cid: str) -> None:
        """A client waits for a task, while nobody can get one."""
        self.leases.arrive(cid, None)

    def trains(self, cid: str, number: int) -> bool:
        """Whether a client still trains on this lease."""
        return self.leases.holds(cid, number)

    def expire(self, cid: str, number: int, at: Seconds) -> list[Action]:
        """A lease ends; the client may still deliver."""
        return self._grant(at) if self.leases.expire(cid, number) else []

    def deliver(self, cid: str, base: int) -> bool:
        """A client's update has arrived.

        Says whether it must be decided on now, with those that arrived before: it fills
        the buffer, or it is not certain that it is accepted.
        """
        self.leases.deliver(cid)
        self._delivered += 1
        return (
            self._delivered >= self._missing
            or self._version - base > self._limit
            or not self._welcoming
            or self.state.closed is not None
        )

    def shall_evaluate(self, cid: str) -> bool:
        """Whether a client that is given a task shall evaluate its model, too."""
        return self.examinations.asks(cid, self._version, self.evaluate)

    def may_grant(self) -> bool:
        """Whether somebody might get a task now; :meth:`hand_out` sees who."""
        return self.leases.has_room(self.state.count + self._delivered)

    def hand_out(self, at: Seconds) -> list[Action]:
        """Gives tasks to whoever waits and may have one now."""
        return self._grant(at)

    def enter(
        self,
        updates: Sequence[Update],
        at: Seconds,
        rows: Sequence[Row] = (),
    ) -> tuple[list[Decision], list[Action]]:
        """Decides on the updates that were delivered, in their order.

        Args:
            updates: of sound values.
            at: when the last one of them arrived.
            rows: what they say, where they are no payloads.
        """
        state, self._delivered = self.state, 0
        state.touch(at)
        if self._welcoming and self.algorithm.staleness.memoryless:
            decisions = self._by_bases(updates)
        else:
            decisions = [self._judged(update) for update in updates]
        accepted, weights = updates, [decision.weight for decision in decisions]
        if any(decision.verdict is not Verdict.ACCEPTED for decision in decisions):
            places = [
                place
                for place, decision in enumerate(decisions)
                if decision.verdict is Verdict.ACCEPTED
            ]
            accepted = [updates[place] for place in places]
            weights = [weights[place] for place in places]
            rows = [rows[place] for place in places] if rows else rows
        if accepted:
            state.take(accepted, weights, rows)
        actions: list[Action] = []
        if state.count >= self.algorithm.config.buffer:
            actions += self._step("buffer")
        actions += self._close_if_due()
        actions += self._hand_out()
        return decisions, actions

    def _by_bases(self, updates: Sequence[Update]) -> list[Decision]:
        """The decisions, where nothing but the version matters that one began with."""
        known = {
            update.base: self._decision(update)
            for update in {each.base: each for each in updates}.values()
        }
        return [known[update.base] for update in updates]

    def _judged(self, update: Update) -> Decision:
        """The decision on an update, which those after it depend on."""
        decision = self._decision(update)
        if decision.verdict is Verdict.ACCEPTED:
            self.state.observe(update, decision.staleness, decision.weight)
        return decision

    def _decision(self, update: Update) -> Decision:
        verdict, _, weight = judge_update(
            self.state, update.base, update.samples, update.counts
        )
        return Decision(verdict, weight, self.state.version - update.base)

    def dump(self) -> JSON:
        """What the state does not hold: leases, the deadline, what was measured."""
        deadline = None
        if self._deadline is not None:
            deadline = [*self._deadline, self._deadline_at]
        return {
            "leases": self.leases.dump(),
            "deadline": deadline,
            "examinations": self.examinations.dump(),
            "delivered": self._delivered,
        }

    def load(self, saved: JSON) -> list[Action]:
        """What :meth:`dump` gave, after the state was loaded."""
        self.leases.load(saved["leases"], None)
        self._delivered = saved["delivered"]
        if "examinations" in saved:  # in those of before, nobody was asked
            self.examinations.load(saved["examinations"])
        self._look()
        if saved["deadline"] is None:
            return []
        *timer, self._deadline_at = saved["deadline"]
        self._deadline = Timer(*timer)
        return [SetTimer(timer=self._deadline, at=self._deadline_at)]

    def _arm_deadline(self) -> list[Action]:
        actions = super()._arm_deadline()
        for action in actions:
            if isinstance(action, SetTimer):
                self._deadline_at = action.at
        return actions

    def _hold(self, pull: Pull) -> list[Action]:
        """The evaluator waits as long as it takes; here, no connection can break."""
        return []

    def _grant(self, at: Seconds) -> list[Action]:
        """Only a grant needs to know the time."""
        accepted = self.state.count + self._delivered
        if self.state.closed or not self.leases.has_room(accepted):
            return []
        granted = self.leases.grant(self._version, accepted)
        if not granted:
            return []
        self.state.touch(at)
        self.granted += [(cid, lease) for cid, _, lease in granted]
        return self._arm_deadline()

    def _start_training(self) -> list[Action]:
        """After a step or a timer, at the time of the state."""
        self._look()
        return self._grant(self.state.at)
