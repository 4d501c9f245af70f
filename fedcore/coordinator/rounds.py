"""The rounds of a federation, for clients whose messages all arrive.

:class:`Rounds` makes every decision of a federation: which clients train, what an
update counts for, when a version is made, and when the run ends. Synchronous,
semi-synchronous and asynchronous federations are one machine. A simulation drives it
directly; for clients whose messages can be lost,
:class:`fedcore.coordinator.Coordinator` is built around it.

What happens outside is returned as actions: ``Persist``, ``SetTimer`` and ``Finish``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import sub
from traceback import extract_tb
from typing import Any, NamedTuple

import numpy as np

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import norms_of
from fedcore.controllers import Request
from fedcore.coordinator.actions import Action, Finish, Lease, Persist, SetTimer
from fedcore.coordinator.events import (
    Closed,
    Decided,
    Declined,
    Opened,
    Stepped,
    StepReason,
    Timer,
)
from fedcore.coordinator.leases import Leases
from fedcore.coordinator.settings import StopConfig, reaches
from fedcore.coordinator.state import (
    Arrived,
    Decision,
    Flaw,
    ServerState,
    Update,
    announce,
    size_of,
)
from fedcore.errors import PayloadError
from fedcore.labels import MOST_CLASSES
from fedcore.measured import Device
from fedcore.params import ParamSpec
from fedcore.payloads import Declared, Payload, magnitude
from fedcore.protocol import (
    LARGEST,
    LARGEST_SUM,
    LONGEST_WAIT,
    MOST_COUNTED,
    Epoch,
    Plan,
    Push,
    Verdict,
)
from fedcore.rng import Key
from fedcore.text import keep_finite
from fedcore.typing import JSON, Bytes, Row, Seconds, Vector

# ---------------------------------------- decides on an update that has no verdict yet


LONGEST_REASON = 200  # characters of what an exception says


def judge(update: Update, state: ServerState) -> Decision:
    """Decides what an update counts for; changes no state.

    Args:
        update: which has arrived.
        state: of the server.

    Raises:
        Exception: a policy raised.
    """
    base, staleness = update.base, state.version - update.base
    if update.flaw is not None:
        return Decision(update.flaw.verdict, 0.0, staleness, update.flaw.reason)
    algorithm, cid = state.algorithm, update.client
    if staleness > state.limit:
        reason = f"{_versions(staleness)} late, the limit is {state.limit}"
        return Decision(Verdict.REJECTED_STALE, 0.0, staleness, reason)
    if "gap" in algorithm.aggregator.needs and base not in state.bases:
        reason = f"the server no longer has version {base} to mix with"
        return Decision(Verdict.REJECTED_STALE, 0.0, staleness, reason)
    if state.closed:
        reason = f"the run has ended: {state.closed}"
        return Decision(Verdict.REJECTED_CLOSED, 0.0, staleness, reason)
    # A task that was announced was judged before it was computed.
    if algorithm.filters_updates and state.learnt.plans.of(cid, base) is None:
        size = size_of(update.samples, update.measured)
        refusal = algorithm.update_filter.refusal(
            state.learnt.update_filter, size, update.counts
        )
        if refusal is not None:
            return Decision(Verdict.REJECTED_POLICY, 0.0, staleness, refusal)
    weight = algorithm.staleness.weigh(state.learnt.staleness, staleness, update.counts)
    return Decision(Verdict.ACCEPTED, weight, staleness, _remark(update, state))


def open_update(
    data: Bytes, spec: ParamSpec, declared: Declared | None = None
) -> Opened:
    """Reads an update as a peer sent it; never raises.

    Args:
        data: the packed payload.
        spec: of the model that it must fit.
        declared: the formats that the uplink makes; others are refused.
    """
    try:
        payload = payloads.unpack(data, spec.sizes, declared)
        absurd = _absurd(payload, spec)
        return Opened(payload if absurd else payloads.prepare(payload), absurd)
    except Exception as error:  # noqa: BLE001 -- the verdict tells it
        return Opened(error=error)


def _absurd(payload: Payload, spec: ParamSpec) -> str:
    """Says why values cannot be used; empty if they are finite and not too large."""
    if payload.format == "values" or payloads.magnitude(payload) <= LARGEST:
        return ""
    with np.errstate(over="ignore", invalid="ignore"):
        tensor = spec.beyond(payloads.decode(payload), LARGEST)
    where = f" in {tensor!r}" if tensor else ""  # none: only the bound is so large
    return f"the update holds NaN, infinite or absurdly large values{where}"


def read_update(
    push: Push, state: ServerState, opened: Opened | None, *, has_task: bool = True
) -> Arrived:
    """Reads the update of a push, and finds what is wrong with it; never raises.

    Args:
        push: which has arrived.
        state: of the server.
        opened: the payload, if it was read before.
        has_task: whether a task stands behind it.
    """
    payload, flaw = None, None
    try:
        opened = opened or open_update(push.payload, state.algorithm.spec)
        payload = opened.payload
        if payload is None:
            raise opened.error or PayloadError("no payload")
        _check_claims(push, payload)
        absurd = opened.absurd or _beyond_sums(push, payload, state)
        if absurd:
            flaw = Flaw(Verdict.DISCARDED, absurd)
    except PayloadError as error:
        payload, flaw = None, Flaw(Verdict.REJECTED_MALFORMED, str(error))
    except Exception as error:  # noqa: BLE001 -- any error rejects the update
        payload, flaw = None, describe_raised(error)
    return make_update(push, flaw, has_task=has_task, payload=payload)


def describe_raised(error: Exception) -> Flaw:
    """Returns the flaw of an update at which a decoder or a policy raised.

    Without a verdict, its client would send it again for ever.
    """
    last = extract_tb(error.__traceback__)[-1]
    where = f"{last.name}, line {last.lineno}"
    words = f"{type(error).__name__}: {str(error)[:LONGEST_REASON]} ({where})"
    return unread_flaw(f"judging it raised {words}")


def unread_flaw(reason: str) -> Flaw:
    """Returns the flaw of an update that cannot be handled; its bytes are kept."""
    return Flaw(Verdict.REJECTED_MALFORMED, reason, is_kept=True)


def make_update(
    push: Push,
    flaw: Flaw | None,
    *,
    has_task: bool,
    payload: Payload | None = None,
) -> Arrived:
    """Returns the update of a push; it has no payload if it is not read for its flaw.

    Args:
        push: which has arrived.
        flaw: what is wrong with it.
        has_task: whether a task stands behind it.
        payload: its values.
    """
    return Arrived(
        payload=payload,
        base=push.base.version,
        samples=push.samples,
        counts=None if payload is None else push.counts,
        steps=push.steps,
        client=push.cid,
        loss=_finite(push.loss),
        measured=push.measured and push.measured.clean(),
        flaw=flaw,
        task=has_task,
    )


def record_of(
    push: Push, update: Arrived, decision: Decision, state: ServerState
) -> Decided:
    """Returns the record of a decision.

    Args:
        push: which was decided on.
        update: what was read of it.
        decision: on it.
        state: of the server, at the version at which it was decided.
    """
    flaw = update.flaw
    is_kept = update.payload is not None or (flaw is not None and flaw.is_kept)
    return Decided(
        at=state.at,
        cid=push.cid,
        seq=push.seq,
        digest=push.digest,
        base=push.base.version,
        staleness=decision.staleness,
        verdict=decision.verdict,
        weight=decision.weight,
        reason=decision.reason,
        samples=push.samples,
        steps=push.steps,
        update_norm=_finite(push.update_norm) or 0.0,
        memory_norm=_finite(push.memory_norm) or 0.0,
        oldest=_oldest(push, state),
        counts=update.counts,
        loss=update.loss,
        nbytes=len(push.payload),
        payload=push.payload if is_kept else b"",
        measured=update.measured,
        metrics=keep_finite(push.metrics),
        task=update.task,
    )


def _beyond_sums(push: Push, payload: Payload, state: ServerState) -> str:
    """Why the sums of a version could overflow; empty if they cannot.

    All clients together, each with so many samples and values, must stay in float32.
    """
    config = state.algorithm.config
    samples = config.count_update(push.samples)
    times = samples * max(config.buffer, state.roster.trainers)
    if "pace" in state.algorithm.aggregator.needs:
        own = state.settings_of(push.cid)
        times *= config.most_steps(push.samples, push.base.version, own)
    if LARGEST * times <= LARGEST_SUM or magnitude(payload) * times <= LARGEST_SUM:
        return ""
    return f"the update is absurdly large to count for {samples} samples"


def _remark(update: Update, state: ServerState) -> str:
    """A remark on an update that counts for fewer samples or steps than it claims."""
    config, remarks, samples = state.algorithm.config, [], update.samples
    if config.weigh_by == "samples":
        counted = config.count_update(samples)
        if counted != samples:
            limit = "algorithm.samples_cap"
            remarks.append(f"{counted} of its {samples} samples ({limit})")
    if "pace" in state.algorithm.aggregator.needs:
        own, steps = state.settings_of(update.client), update.steps
        most = config.most_steps(samples, update.base, own)
        if steps > most:
            remarks.append(f"{most} of its {steps} steps, more than it can be given")
    return f"counts for {' and for '.join(remarks)}" if remarks else ""


def _check_claims(push: Push, payload: Payload) -> None:
    """Checks the numbers of a peer.

    Raises:
        PayloadError: one of them is impossible.
    """
    if payload.format == "values":
        raise PayloadError("new values of a model are no update")
    if not 1 <= push.samples <= MOST_COUNTED:
        raise PayloadError(
            f"an update of {push.samples} samples; expected 1 to {MOST_COUNTED}"
        )
    if push.base.version < 0:
        raise PayloadError(f"an update based on version {push.base.version}")
    if push.counts is not None and (
        len(push.counts) > MOST_CLASSES
        or bool(((push.counts < 0) | (push.counts > MOST_COUNTED)).any())
    ):
        raise PayloadError(
            f"label counts must be 0 to {MOST_COUNTED}, for up to {MOST_CLASSES} "
            "classes"
        )


def _oldest(push: Push, state: ServerState) -> int | None:
    """The oldest version of this history whose mass was folded back into an update."""
    oldest = push.oldest
    return oldest.version if oldest and oldest.epoch == state.epoch else None


def _finite(claim: float | None) -> float | None:
    return claim if claim is not None and math.isfinite(claim) else None


def _versions(count: int) -> str:
    return "1 version" if count == 1 else f"{count} versions"


# ---- the deadline of a cohort: when it has passed, and how a pause of the run moves it


class Deadline:
    """The deadline of the present cohort, if it has one.

    It depends on the times of events alone. It is not durable: after a restart, the
    first lease sets it anew.
    """

    def __init__(self) -> None:
        """Makes a deadline that is not set: the cohort has none yet."""
        self._set: SetTimer | None = None
        self._left: Seconds | None = None  # of a deadline that a pause stopped

    @property
    def is_set(self) -> bool:
        """Whether this cohort has a deadline, stopped or not."""
        return self._set is not None

    def begin(self, timer: Timer, at: Seconds) -> list[Action]:
        """A cohort begins; returns the timer to set, for the time ``at``."""
        self._set, self._left = SetTimer(timer=timer, at=at), None
        return [self._set]

    def end(self) -> None:
        """The cohort is over: a timer of it that fires is void."""
        self._set = self._left = None

    def is_due(self, timer: Timer) -> bool:
        """Whether a timer that fires is this deadline, and no pause has stopped it."""
        is_this = self._set is not None and timer == self._set.timer
        return is_this and self._left is None

    def stop(self, at: Seconds) -> None:
        """The run is paused: the time that is left stays."""
        if self._set is not None:
            self._left = max(0.0, self._set.at - at)

    def go_on(self, at: Seconds) -> list[Action]:
        """The run goes on; returns the timer to set in place of the one before.

        It has another name, so that the one before is void, even where it has fired and
        is on its way to the coordinator.
        """
        if self._set is None or self._left is None:
            return []
        before = self._set.timer
        return self.begin(
            before._replace(subject=f"{before.subject}+"), at + self._left
        )

    def dump(self) -> JSON:
        """The deadline as JSON, for :meth:`load`; only simulations ask, unpaused."""
        return None if self._set is None else [*self._set.timer, self._set.at]

    def load(self, saved: Sequence[Any] | None) -> list[Action]:
        """Takes over what :meth:`dump` returned; returns the timer to set."""
        if saved is None:
            return []
        *timer, at = saved
        return self.begin(Timer(*timer), at)


# ----------------------------------------------------------- when the run ends, and why


def end_of(stop: StopConfig, started: Seconds | None) -> Seconds | None:
    """Returns when the seconds are over; None: not limited, or not begun."""
    if stop.seconds is None or started is None:
        return None
    return started + stop.seconds


def why_ended(
    stop: StopConfig,
    versions: int,
    updates: int,
    started: Seconds | None,
    now: Seconds,
) -> str | None:
    """Returns why a run ends here; None: it goes on."""
    if stop.versions is not None and versions >= stop.versions:
        return f"{stop.versions} versions"
    if stop.updates is not None and updates >= stop.updates:
        return f"{stop.updates} updates"
    end = end_of(stop, started)
    if end is not None and now >= end:
        return f"{stop.seconds:g} seconds"
    return None


# ------------------- the rounds of a federation, for clients whose messages all arrive


class Asked(NamedTuple):
    """The facts that a client gave of itself when it asked for a task."""

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
            not algorithm.filters_updates
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
            device = asked.device and asked.device.clean()
            request = Request(cid, device)
            lease.given = controller.assign(state.learnt.controllers, request)
        state.learnt.plans.note(cid, None)
        if asked.plan is None or config.update_filter.rest is None:
            return None
        own = state.settings_of(cid)
        task = announce(config, own, asked.plan, lease.given, state.version)
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
        """Whether a timer that fires changes nothing.

        It is an earlier cohort's deadline, that of a paused run, or the end of a lease
        whose client has delivered and come again, or is not here.
        """
        if timer.kind == "lease":
            return not self.leases.awaits(timer.subject, timer.number)
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
        return why_ended(self.stop, state.version, updates, state.started, state.at)

    def close_if_due(self) -> list[Action]:
        """Ends the run if its time has come."""
        reason = None if self.state.closed else self.stop_reason()
        return self.close(reason) if reason else []

    def close_if_reached(self, metrics: Mapping[str, float]) -> list[Action]:
        """Ends the run if metrics of an evaluator reach the target."""
        is_over = reaches(self.stop.target, metrics)
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
