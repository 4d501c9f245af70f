"""The rounds of a federation, for clients whose messages all arrive.

:class:`Rounds` makes every decision of a federation: which clients train, what an
update counts for, when a version is made, and when the run ends. Synchronous,
semi-synchronous and asynchronous federations are one machine. A simulation drives it
directly; for clients whose messages can be lost,
:class:`fedcore.coordinator.Coordinator` is built around it.

What happens outside is returned as actions: ``Persist``, ``SetTimer`` and ``Finish``.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import sub
from typing import NamedTuple

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import norms_of
from fedcore.controllers import Request
from fedcore.coordinator.actions import Action, Finish, Persist, SetTimer
from fedcore.coordinator.deadlines import Deadline
from fedcore.coordinator.events import Timer
from fedcore.coordinator.leases import Lease, Leases
from fedcore.coordinator.plans import announced
from fedcore.coordinator.records import Closed, Declined, Stepped, StepReason
from fedcore.coordinator.settings import StopConfig, reached
from fedcore.coordinator.state import ServerState
from fedcore.coordinator.updates import Arrived, Decision, Update
from fedcore.coordinator.verdicts import judge
from fedcore.measured import Device
from fedcore.payloads import Payload
from fedcore.protocol import LONGEST_WAIT, Epoch, Plan, Verdict
from fedcore.rng import Key
from fedcore.typing import JSON, Row, Seconds, Vector


class Asked(NamedTuple):
    """What a client said of itself when it asked for a task."""

    device: Device | None = None
    """The facts of its device; None: unknown."""
    plan: Plan | None = None
    """What it would train on; None: it did not say, so its update is judged."""


class Grants(NamedTuple):
    """The clients that may train now, and those whose tasks are refused."""

    leases: Sequence[Lease]
    declined: Sequence[Declined]
    """Tasks that were refused before they are computed; these clients have none."""
    actions: Sequence[Action]
    """What follows, to be carried out first."""


NO_GRANTS = Grants((), (), ())


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
        crowd: Seconds = 0.0,
        served: bool = True,
    ) -> None:
        """Makes a run at version 0.

        Args:
            algorithm: what the federation does.
            initial_D: version 0.
            epoch: the name of the first history.
            seed: of all random choices.
            stop: when the run ends.
            crowd: seconds for which a cohort that could be larger waits for more
                clients after one has come for the first time.
            served: clients ask for versions, and somebody reads their records. If not,
                the records tell no digest and no norm of W - X.
        """
        self.state = ServerState(algorithm, initial_D, epoch, served=served)
        self._served = served
        self.stop = stop or StopConfig()
        self.crowd = crowd
        self.key = Key.root(seed).fold_in("server")
        self.asked: Callable[[str], Asked] = lambda cid: Asked()
        """Returns what a client that waits said of itself; set by the driver."""
        self.completes_cohorts = True
        """Whether a complete cohort makes a version; else a record says when."""
        self._deadline = Deadline()  # of the present cohort
        self._delivered = 0  # updates that have arrived and wait for their decision
        self._known, self._came = 0, 0.0  # how many came, and when the last did
        self._back: Seconds = 0.0  # when those who were known before a restart are back
        self._looks: Seconds = 0.0  # when a timer looks whether a cohort is over
        self._use(algorithm)

    def begin(self, at: Seconds) -> None:
        """Begins a process: nobody is here, and those who are known may come back."""
        self.state.touch(at)
        if self.state.roster.trainers:
            self._back = at + LONGEST_WAIT

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
        # True if every on-time update is accepted and nothing learns from it, so
        # decisions can be made together.
        self._may_wait = (
            config.update_filter.accepts_all
            and "gap" not in algorithm.aggregator.needs
            and not algorithm.observes_tasks
        )
        self._is_usual = (
            algorithm.server_controller is None and config.update_filter.rest is None
        )

    # --------------------------------------------------------------------- tasks

    def arrive(self, cid: str) -> None:
        """A client waits for a task; what its name has delivered counts for it."""
        entries = self.state.entries_of(cid)
        if entries > self.leases.delivered.get(cid, 0):
            self.leases.count(cid, entries)
        self.leases.arrive(cid)

    def grant(self, at: Seconds) -> Grants:
        """Gives leases to the waiting clients that may train now.

        A task that the update filter refuses is over before it begins: its client has
        no lease any more, and another one may get its place.
        """
        state, leases = self.state, self.leases
        if len(leases.known) != self._known:
            self._known, self._came = len(leases.known), at
        accepted = state.count + self._delivered
        if state.closed or state.is_paused or not leases.has_room(accepted):
            return NO_GRANTS
        given = leases.grant(state.published.version, accepted)
        if not given:
            return NO_GRANTS
        state.touch(at)
        actions = self._start_deadline()
        if self._is_usual:
            return Grants(given, (), actions)
        return self._screen(given, actions)

    def _screen(self, given: Sequence[Lease], actions: list[Action]) -> Grants:
        """Keeps the leases of tasks that the update filter does not refuse.

        Args:
            given: leases that were given; whoever is refused makes room for others.
            actions: what followed from giving them.

        Returns:
            The leases that stay, what was refused, and all that follows.
        """
        state, leases = self.state, self.leases
        granted: list[Lease] = []
        declined: list[Declined] = []
        while given:
            refused = len(declined)
            for lease in given:
                record = self._assign(lease)
                if record is None:
                    granted.append(lease)
                else:
                    declined.append(record)
                    actions.append(Persist(record=record))
            if len(declined) == refused:
                break
            actions += self.advance()
            if state.closed or state.is_paused:
                break
            given = leases.grant(state.version, state.count + self._delivered)
            if given:
                actions += self._start_deadline()
        return Grants(granted, declined, actions)

    def _assign(self, lease: Lease) -> Declined | None:
        """Sets what a task is given, unless the update filter refuses it.

        Returns:
            The record of a refusal, already applied; None: the task may begin.
        """
        state, config, cid = self.state, self.algorithm.config, lease.cid
        controller, asked = self.algorithm.server_controller, self.asked(cid)
        if controller is not None:
            device = asked.device and asked.device.checked()
            request = Request(cid, device)
            lease.given = controller.assign(state.learnt.controllers, request)
        state.learnt.plans.note(cid, None)
        if asked.plan is None or config.update_filter.rest is None:
            return None
        own = state.settings_of(cid)
        task = announced(config, own, asked.plan, lease.given, state.version)
        refusal = self.algorithm.update_filter.refusal(
            state.learnt.update_filter, task.size, task.counts
        )
        if refusal is None:
            state.learnt.plans.note(cid, task)
            return None
        self.leases.fail(cid)
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
        """Whether no client that is here can get a lease by delivering or by waiting.

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
            Whether all updates that wait must be decided on now: they fill the buffer,
            complete the cohort or end the run, or it is not certain that this one is
            accepted, or a role learns from it.
        """
        leases, state = self.leases, self.state
        leases.deliver(cid)
        self._delivered += 1
        pending, last = state.count + self._delivered, self.stop.updates
        version = state.published.version
        return (
            pending >= self._buffer
            or not self._may_wait
            or (base != version and version - base > state.limit)
            or state.closed is not None
            or (last is not None and state.applied + pending >= last)
            or (not leases.training and leases.is_complete)
        )

    def enter(
        self, updates: Sequence[Update], at: Seconds, rows: Sequence[Row] = ()
    ) -> list[Decision]:
        """Decides on the updates that were delivered, in their order.

        Those that are accepted join the buffer; :meth:`advance` makes versions.

        Args:
            updates: all that were delivered and not decided on.
            at: when the last one of them arrived.
            rows: the values of those updates that are rows of a stack.

        Raises:
            Exception: a policy raised, before the update at which it did counts.
        """
        self._delivered = 0
        self.state.touch(at)
        if self._may_wait and self.algorithm.staleness.memoryless:
            decisions = self._decide_by_bases(updates)
        else:
            decisions = [self._decide(update) for update in updates]
        self._take(updates, decisions, rows)
        return decisions

    def take(self, update: Arrived, decision: Decision) -> None:
        """Applies the decision on one update that was not delivered before."""
        self.leases.deliver(update.client)
        if update.task:
            self.state.learnt.learn(decision, update.client, update, self.state.at)
        self._take([update], [decision])

    def _take(
        self,
        updates: Sequence[Update],
        decisions: Sequence[Decision],
        rows: Sequence[Row] = (),
    ) -> None:
        """Adds the updates that are accepted to the buffer."""
        accepted, weights = updates, [decision.weight for decision in decisions]
        usual = Verdict.ACCEPTED
        if any(decision.verdict is not usual for decision in decisions):
            places = [
                place
                for place, decision in enumerate(decisions)
                if decision.verdict is Verdict.ACCEPTED
            ]
            for update, decision in zip(updates, decisions, strict=True):
                if decision.verdict is not Verdict.ACCEPTED:
                    self.leases.refuse(update.client)
            accepted = [updates[place] for place in places]
            weights = [weights[place] for place in places]
            rows = [rows[place] for place in places] if rows else rows
        if accepted:
            self.state.take(accepted, weights, rows)

    def _decide_by_bases(self, updates: Sequence[Update]) -> list[Decision]:
        """The decisions, where they depend on the base version alone."""
        known = {
            update.base: judge(update, self.state)
            for update in {each.base: each for each in updates}.values()
        }
        return [known[update.base] for update in updates]

    def _decide(self, update: Update) -> Decision:
        """The decision on one update, which decisions on later ones may depend on."""
        state = self.state
        decision = judge(update, state)
        state.learnt.learn(decision, update.client, update, state.at)
        return decision

    # ------------------------------------------------------------------ versions

    def advance(self) -> list[Action]:
        """Makes a version if one is due, and ends the run if that is due."""
        actions: list[Action] = []
        if self.state.count >= self._buffer:
            actions += self._step("buffer")
        elif self.completes_cohorts and self.leases.is_complete:
            actions += self._complete()
        return actions + self.close_if_due()

    def _complete(self) -> list[Action]:
        """Makes a version of a complete cohort, unless more clients may be on the way.

        They are for a while after a client has come for the first time, and after a
        restart until those who were known are back. Nothing enters a paused run.
        """
        state = self.state
        enough = self.algorithm.config.minimum
        if state.count < enough or state.closed is not None or state.is_paused:
            return []
        until = self._came + self.crowd
        if state.at < self._back and not self._all_are_back():
            until = max(until, self._back)
        if state.at >= until:
            return self._step("complete")
        if self._looks == until:
            return []
        self._looks = until
        return [SetTimer(timer=Timer("complete", str(until)), at=until)]

    def _all_are_back(self) -> bool:
        """Whether every member that was known before a restart is here again."""
        roster = self.state.roster
        back = {roster.name_of(cid) for cid in self.leases.present}
        return all(r.name in back for r in roster.clients.values() if r.trains)

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
                gap = float(norms_of(sub, state.published.public_D, state.exact_D))
        self._deadline.end()
        self.leases.begin_version()
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

    def _message(self, gap: Callable[[], Vector]) -> tuple[bytes, Payload] | None:
        """The message for W - X, packed and decoded; None where X is published."""
        if self.algorithm.config.downlink.is_exact:
            return None
        key = self.key.fold_in("downlink", self.state.version + 1)
        downlink, published = self.algorithm.downlink, self.state.published
        rate = self.algorithm.config.client.rate(published.version)
        now = downlink.at(lambda: published.context(downlink, rate))
        payload, _ = now.encode(gap(), None, key)
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
        """Makes a version if there are enough updates, or extends the cohort."""
        if self.is_void(timer) or self.state.closed:
            return []
        self._deadline.end()
        if self.state.count >= self.algorithm.config.minimum:
            return [*self._step("deadline"), *self.close_if_due()]
        self.leases.extend_cohort()
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
        """The leases and the timers as JSON, for :meth:`load`."""
        return {
            "leases": self.leases.dump(),
            "deadline": self._deadline.dump(),
            "delivered": self._delivered,
            "came": [self._known, self._came],
            "looks": self._looks,
        }

    def load(self, saved: JSON) -> list[Action]:
        """Takes over what :meth:`dump` returned, after the state was loaded.

        Returns:
            The timers that were set.
        """
        self.leases.load(saved["leases"])
        self._delivered = saved["delivered"]
        self._known, self._came = saved["came"]
        self._back, self._looks = self.state.at, saved["looks"]
        actions = self._deadline.load(saved["deadline"])
        if self._looks > self.state.at:
            timer = Timer("complete", str(self._looks))
            actions.append(SetTimer(timer=timer, at=self._looks))
        return actions
