"""The rounds of a federation, for clients whose messages all arrive.

:class:`Rounds` decides which clients train, what an update counts for, when a version
is made, and when the run ends. Synchronous, semi-synchronous and asynchronous
federations are one machine. A simulation drives it directly; for clients whose
messages can be lost, :class:`fedcore.coordinator.Coordinator` is built around it.

What happens outside is returned as actions: ``Persist``, ``SetTimer`` and ``Finish``.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import norm
from fedcore.controllers import USUAL, Assignment, Request
from fedcore.coordinator.actions import Action, Finish, Persist
from fedcore.coordinator.deadlines import Deadline
from fedcore.coordinator.events import Timer
from fedcore.coordinator.leases import Lease, Leases
from fedcore.coordinator.plans import announced
from fedcore.coordinator.records import Closed, Declined, Stepped, StepReason
from fedcore.coordinator.settings import StopConfig, reached
from fedcore.coordinator.state import ServerState
from fedcore.coordinator.updates import Update, size_of
from fedcore.coordinator.verdicts import judge_update
from fedcore.measured import Device
from fedcore.payloads import Payload
from fedcore.protocol import Epoch, Plan, Verdict
from fedcore.rng import Key
from fedcore.typing import JSON, Row, Seconds, Vector


class Decision(NamedTuple):
    """What the server decided on an update."""

    verdict: Verdict
    weight: float  # λ
    staleness: int


class Rounds:
    """Leases, decisions, versions and the end. One owner, one thread."""

    def __init__(
        self,
        algorithm: Algorithm,
        initial_D: Vector,
        *,
        epoch: Epoch,
        seed: int = 0,
        stop: StopConfig | None = None,
        served: bool = True,
    ) -> None:
        """A run at version 0.

        Args:
            algorithm: what the federation does.
            initial_D: version 0.
            epoch: the name of the first history.
            seed: of all random choices.
            stop: when the run ends.
            served: clients ask for versions, and somebody reads their records. If not,
                the records tell no digest and no norm of W - X.
        """
        self.state = ServerState(algorithm, initial_D, epoch, served=served)
        self._served = served
        self.stop = stop or StopConfig()
        self.key = Key.root(seed).fold_in("server")
        self._deadline = Deadline()  # of the present cohort
        self._delivered = 0  # updates that have arrived and wait for their decision
        self._use(algorithm)

    def amend(self, algorithm: Algorithm, stop: StopConfig) -> None:
        """Goes on with other settings; before the first event of a process."""
        self.state.amend(algorithm)
        self.stop = stop
        self._use(algorithm)

    def _use(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.leases = Leases(
            algorithm,
            self.key,
            lambda cid: self.state.clients[cid].name,
            lambda: self.state.learnt.selection,
        )
        config = algorithm.config
        self._buffer = config.buffer
        # Whether no update in time can be refused, and no role learns from it.
        self._may_wait = (
            config.update_filter.accepts_all
            and "gap" not in algorithm.aggregator.needs
            and not algorithm.observes_tasks
        )

    # --------------------------------------------------------------------- tasks

    def grant(self, at: Seconds) -> tuple[Sequence[Lease], Sequence[Action]]:
        """Gives leases to the waiting clients that may train now.

        Returns:
            The leases, and the timer of the deadline if they start a cohort.
        """
        accepted = self.state.count + self._delivered
        state = self.state
        if state.closed or state.is_paused or not self.leases.has_room(accepted):
            return (), ()
        granted = self.leases.grant(state.version, accepted)
        if not granted:
            return (), ()
        state.touch(at)
        return granted, self._start_deadline()

    def assign(self, cid: str, device: Device | None = None) -> Assignment:
        """Returns what the controllers give a client's next task.

        Args:
            cid: the client.
            device: its facts; None: unknown.
        """
        controller = self.algorithm.server_controller
        if controller is None:
            return USUAL
        checked = device and device.checked()
        return controller.assign(self.state.learnt.controllers, Request(cid, checked))

    def review(self, cid: str, plan: Plan | None, given: Assignment) -> Declined | None:
        """Judges a task that was just granted, before it is computed.

        A refused task is over: its client has no lease any more, and :meth:`grant` may
        give its place to another one.

        Args:
            cid: the client.
            plan: what it announced; None: nothing, so its update is judged.
            given: what :meth:`assign` returned for it.

        Returns:
            The record of a refusal, already applied; None: the task may begin.
        """
        state, config = self.state, self.algorithm.config
        state.learnt.plans.note(cid, None)
        if plan is None or config.update_filter.rest is None:
            return None
        task = announced(config, state.settings_of(cid), plan, given, state.version)
        refusal = self.algorithm.update_filter.refusal(
            state.learnt.update_filter, task.size, task.counts
        )
        if refusal is None:
            state.learnt.plans.note(cid, task)
            return None
        self.leases.deliver(cid)
        record = Declined(
            at=state.at,
            cid=cid,
            version=state.version,
            planned=task.size,
            counts=task.counts,
            reason=refusal,
        )
        state.note(record)
        return record

    @property
    def is_settled(self) -> bool:
        """Whether no client can get a lease by arriving, delivering or waiting.

        This may change with the next decision, lost client or end of a lease.
        """
        accepted = self.state.count + self._delivered
        return self.leases.is_settled(accepted) and self.state.closed is None

    # ------------------------------------------------------------------- updates

    def deliver(self, cid: str, base: int) -> bool:
        """A client's update has arrived; :meth:`enter` decides on it later.

        Args:
            cid: the client.
            base: the version that the update was trained on.

        Returns:
            Whether all updates that wait must be decided on now: they fill the buffer
            or end the run, or it is not certain that this one is accepted, or
            a role learns from it.
        """
        self.leases.deliver(cid)
        self._delivered += 1
        state = self.state
        pending = state.count + self._delivered
        if (
            pending >= self._buffer
            or state.published.version - base > state.limit
            or not self._may_wait
            or state.closed is not None
        ):
            return True
        last = self.stop.updates
        return last is not None and state.applied + pending >= last

    def enter(
        self, updates: Sequence[Update], at: Seconds, rows: Sequence[Row] = ()
    ) -> tuple[list[Decision], list[Action]]:
        """Decides on the updates that were delivered, in their order.

        Args:
            updates: all that were delivered and not decided on; their values are
                finite and not too large.
            at: when the last one of them arrived.
            rows: the values of those updates that are rows of a stack.
        """
        self._delivered = 0
        self.state.touch(at)
        if self._may_wait and self.algorithm.staleness.memoryless:
            decisions = self._decide_by_bases(updates)
        else:
            decisions = [self._decide_and_observe(update) for update in updates]
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
            self.state.take(accepted, weights, rows)
        return decisions, self.advance()

    def _decide_by_bases(self, updates: Sequence[Update]) -> list[Decision]:
        """The decisions, where they depend on the base version alone."""
        known = {
            update.base: self._decide(update)
            for update in {each.base: each for each in updates}.values()
        }
        return [known[update.base] for update in updates]

    def _decide_and_observe(self, update: Update) -> Decision:
        """The decision on one update, which decisions on later ones may depend on."""
        verdict, weight, staleness = decision = self._decide(update)
        self.state.learnt.learn(
            verdict, update.client, update, staleness, weight, self.state.at
        )
        return decision

    def _decide(self, update: Update) -> Decision:
        size = size_of(update.samples, update.measured)
        verdict, _, weight = judge_update(
            self.state,
            update.client,
            update.base,
            update.samples,
            update.steps,
            update.counts,
            size,
        )
        return Decision(verdict, weight, self.state.version - update.base)

    # ------------------------------------------------------------------ versions

    def advance(self) -> list[Action]:
        """Makes a version if the buffer is full, and ends the run if that is due."""
        actions: list[Action] = []
        if self.state.count >= self._buffer:
            actions += self._step("buffer")
        return actions + self.close_if_due()

    def flush(self, at: Seconds, reason: StepReason = "flush") -> list[Action]:
        """Makes a version of the updates in the buffer, if there are any."""
        self.state.touch(at)
        return self._step(reason) if self.state.count else []

    def _step(self, reason: StepReason) -> list[Action]:
        state, count, samples = self.state, self.state.count, self.state.samples
        packed = state.step(self._message)
        digest, gap = "", 0.0
        if self._served:
            digest = state.published.digest
            if packed:
                gap = norm(state.published.public_D - state.exact_D)
        self._deadline.end()
        self.leases.new_cohort(same_version=False)
        record = Stepped(
            at=state.at,
            version=state.version,
            reason=reason,
            count=count,
            samples=samples,
            digest=digest,
            gap_norm=gap,
            nbytes=len(packed) or state.published.model_bytes,
            payload=packed,
        )
        return [Persist(record=record)]

    def _message(self, gap_D: Vector) -> tuple[bytes, Payload] | None:
        """The message for W - X, packed and decoded; None where X is published."""
        if self.algorithm.config.downlink.is_exact:
            return None
        key = self.key.fold_in("downlink", self.state.version + 1)
        downlink, published = self.algorithm.downlink, self.state.published
        rate = self.algorithm.config.client.rate(published.version)
        now = downlink.at(lambda: published.context(downlink, rate))
        payload, _ = now.encode(gap_D, None, key)
        packed = payloads.pack(payload)
        return packed, payloads.unpack(packed, self.algorithm.spec.sizes)

    # ------------------------------------------------------------------ deadline

    def _start_deadline(self) -> list[Action]:
        """Sets the timer of this cohort's deadline, if it has one and none is set."""
        seconds = self.algorithm.config.deadline
        if seconds is None or self._deadline.is_set:
            return []
        timer = Timer("deadline", str(self.leases.attempt), self.state.version)
        return self._deadline.begin(timer, self.state.at + seconds)

    def is_void(self, timer: Timer) -> bool:
        """Whether this is an earlier cohort's deadline, or that of a paused run."""
        return timer.kind == "deadline" and not self._deadline.is_due(timer)

    def deadline_passed(self, timer: Timer) -> list[Action]:
        """Makes a version if there are enough updates, otherwise a new cohort."""
        if self.is_void(timer) or self.state.closed:
            return []
        self._deadline.end()
        if self.state.count >= self.algorithm.config.minimum:
            return [*self._step("deadline"), *self.close_if_due()]
        self.leases.new_cohort(same_version=True)
        return self._start_deadline()

    def pause(self) -> None:
        """The run is paused: its cohort keeps the time that it has left."""
        self._deadline.stop(self.state.at)

    def unpause(self) -> list[Action]:
        """The run goes on, and so does the time of its cohort."""
        return self._deadline.go_on(self.state.at)

    # ----------------------------------------------------------------------- end

    def stop_reason(self) -> str | None:
        """Why the run ends now, or None if it goes on."""
        state = self.state
        updates = state.applied + state.count
        return self.stop.reason(state.version, updates, state.started, state.at)

    def close_if_due(self) -> list[Action]:
        """Ends the run if its time has come."""
        reason = None if self.state.closed else self.stop_reason()
        return self.close(reason) if reason else []

    def close_if_reached(self, metrics: Mapping[str, float]) -> list[Action]:
        """Ends the run if metrics of an evaluator reach the target."""
        is_over = reached(self.stop.target, metrics)
        return self.close("target reached") if is_over else []

    def close(self, reason: str) -> list[Action]:
        """Applies the updates in the buffer and ends the run, unless it has ended."""
        if self.state.closed:
            return []
        actions = self.flush(self.state.at)
        record = Closed(at=self.state.at, version=self.state.version, reason=reason)
        self.state.note(record)
        return [*actions, Persist(record=record), Finish(reason=reason)]

    # ----------------------------------------------------------------- snapshots

    def dump(self) -> JSON:
        """The leases and the deadline as JSON, for :meth:`load`."""
        return {
            "leases": self.leases.dump(),
            "deadline": self._deadline.dump(),
            "delivered": self._delivered,
        }

    def load(self, saved: JSON) -> list[Action]:
        """Takes over what :meth:`dump` returned, after the state was loaded.

        Returns:
            The timer of the deadline, if there is one.
        """
        self.leases.load(saved["leases"])
        self._delivered = saved["delivered"]
        return self._deadline.load(saved["deadline"])
