"""The server as a deterministic state machine: events in, actions out.

:class:`Coordinator` is the protocol for clients that can be lost: enrolment, pulls,
pushes, receipts, proofs and epochs. Its :class:`Rounds` decide who trains, what an
update counts for, and when a version is made. Equal events give equal models, whether
the gRPC service, a virtual clock, a replayed journal or a test drives it. The order of
the checks is normative (docs/protocol.md): model checking showed where each must be.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from fedcore.algorithm import Algorithm
from fedcore.coordinator import events
from fedcore.coordinator.actions import (
    Action,
    Finish,
    Lease,
    Persist,
    Refuse,
    SendAck,
    SendReply,
    SetTimer,
    StartTask,
)
from fedcore.coordinator.answers import (
    Evaluations,
    check_enrolment,
    check_evaluation,
    later_states,
    objection,
    record_of,
    why_not_freed,
)
from fedcore.coordinator.events import (
    Declined,
    Enrolled,
    Event,
    Leased,
    Note,
    Opened,
    StepReason,
    Timer,
)
from fedcore.coordinator.rounds import (
    Asked,
    Rounds,
    describe_raised,
    end_of,
    judge,
    make_update,
    read_update,
    unread_flaw,
)
from fedcore.coordinator.rounds import record_of as record_of_update
from fedcore.coordinator.settings import EvaluateConfig, StopConfig, TimeoutsConfig
from fedcore.coordinator.state import NO_TASK, Arrived, Decision, Flaw, ServerState
from fedcore.proofs import Authenticator
from fedcore.protocol import (
    Ack,
    Answer,
    Epoch,
    Patch,
    Pull,
    Push,
    Receipt,
    Reply,
    Task,
    TaskKind,
)
from fedcore.typing import Seconds, Vector

# ------------------- builds the answers to pulls and pushes, and the records of leases


def why_waiting(state: ServerState) -> str:
    """Returns why nobody is given training now, for clients; empty: they may be."""
    if state.paused is None or state.closed:
        return ""
    return (
        f"the operator has paused the run{f': {state.paused}' if state.paused else ''}"
    )


def reply_to(
    pull: Pull,
    state: ServerState,
    proofs: Authenticator,
    task: Task | None,
    *,
    done: bool,
    waits: bool = False,
) -> SendReply:
    """Answers a pull: the patch to the newest version, the receipt, and the task.

    Args:
        pull: what the client asked.
        state: of the server.
        proofs: makes the proofs of version and verdict.
        task: what the client shall do; None: nothing.
        done: whether the run has ended.
        waits: whether the client has waited for a task, and goes on waiting. Then no
            patch travels: it would get another one with the task.
    """
    row, published = state.clients[pull.cid], state.published
    other_history = pull.epoch != state.epoch
    accepted = [seq for seq in row.accepted if seq >= pull.history_from]
    held = None if other_history else pull.held
    if task is not None and task.kind == "train":
        patch = state.patch_to_train(pull.cid, held)
    elif waits and state.groups is not None and held is not None and held.digest:
        patch = Patch.nothing(state.epoch, held.version, held.digest)
    else:
        patch = (published.nothing_new if waits else published.patch)(held)
    is_held = patch.kind == "none"  # then the client has the proof
    reply = Reply(
        nonce=pull.nonce,
        patch=patch,
        receipt=_receipt(pull, state, proofs),
        accepted=tuple(accepted) if other_history else (),
        task=task,
        done=done,
        proof=0 if is_held else proofs.version(state.epoch, state.version),
        left=proofs.departure(pull.epoch) if other_history else 0,
        reason="" if task else why_waiting(state),
    )
    return SendReply(cid=pull.cid, reply=reply)


def _receipt(pull: Pull, state: ServerState, proofs: Authenticator) -> Receipt | None:
    """The receipt of the newest verdict; None if the client knows it."""
    receipt = state.clients[pull.cid].receipt
    if receipt is None or (
        pull.epoch == state.epoch and pull.settled.seq == receipt.seq
    ):
        return None
    proof = proofs.verdict(state.epoch, pull.cid, receipt.seq, receipt.verdict)
    return receipt._replace(proof=proof)


def lease_note(answer: SendReply, kind: TaskKind, state: ServerState) -> Leased:
    """The record of a task that was given with this answer."""
    patch, plan = answer.reply.patch, None
    if kind == "train":
        plan = state.learnt.plans.of(answer.cid, state.version)
    return Leased(
        at=state.at,
        cid=answer.cid,
        version=state.version,
        task=kind,
        patch=patch.kind,
        nbytes=patch.nbytes,
        planned=plan and plan.size,
        counts=plan and plan.counts,
    )


def acknowledge(push: Push, state: ServerState, proofs: Authenticator) -> SendAck:
    """Answers a push that is the last decided message with its verdict.

    The proof is made for the epoch that the client lives in, since it may not have
    heard of a newer one.
    """
    row = state.clients[push.cid]
    receipt = row.receipt
    assert receipt is not None
    ack = Ack(
        seq=receipt.seq,
        digest=receipt.digest,
        answer=receipt.verdict,
        weight=receipt.weight,
        version=receipt.version,
        reason=row.reason,
        proof=proofs.verdict(push.epoch, push.cid, receipt.seq, receipt.verdict),
    )
    return SendAck(cid=push.cid, ack=ack)


def answer_push(push: Push, answer: Answer, reason: str = "") -> SendAck:
    """Answers a push without a verdict."""
    ack = Ack(seq=push.seq, digest=push.digest, answer=answer, reason=reason)
    return SendAck(cid=push.cid, ack=ack)


# --------------------- pulls that wait: who gets a task, and how each pull is answered


class Pulls:
    """The pulls of clients that wait for a task, and the answers to them."""

    def __init__(
        self,
        rounds: Rounds,
        evaluations: Evaluations,
        timeouts: TimeoutsConfig,
        proofs: Authenticator,
    ) -> None:
        """Nobody waits.

        Args:
            rounds: decide who trains.
            evaluations: decide who evaluates.
            timeouts: how long a client waits, and how long a task may take.
            proofs: makes the proofs of versions and verdicts.
        """
        self.timeouts = timeouts
        self._rounds = rounds
        self._state = rounds.state
        self._evaluations = evaluations
        self._proofs = proofs
        self._pulls: dict[str, Pull] = {}  # of the clients that wait
        rounds.asked = self._look_up

    def _look_up(self, cid: str) -> Asked:
        """Returns what a client that waits said in its pull."""
        pull = self._pulls.get(cid)
        return Asked() if pull is None else Asked(pull.device, pull.plan)

    def wait(self, pull: Pull) -> list[Action]:
        """Lets a client wait until it has a task, or ``timeouts.hold`` has passed."""
        if self._state.clients[pull.cid].role == "evaluator":
            self._rounds.leases.lose(pull.cid)  # if it was a trainer before
            self._evaluations.arrive(pull.cid, self._state.evaluated)
        else:
            self._evaluations.withdraw(pull.cid)
            self._rounds.arrive(pull.cid)
        self._pulls[pull.cid] = pull
        actions = [*self._rounds.advance(), *self.grant()]
        if pull.cid in self._pulls:
            timer = Timer("hold", pull.cid, pull.nonce)
            at = self._state.at + self.timeouts.hold
            actions.append(SetTimer(timer=timer, at=at))
        return actions

    def grant(self) -> list[Action]:
        """Gives tasks to those who wait and may have one, evaluators first.

        The order decides who gets a shorter patch (:class:`Published`), and whether a
        deadline or a lease of the same length ends first: simulations keep to it.
        """
        actions = self.answer()
        grants = self._rounds.grant(self._state.at)
        actions += grants.actions
        for record in grants.declined:
            actions.append(self._decline(record))
        for lease in grants.leases:
            pull = self._pulls.pop(lease.cid, None)
            if pull is None:  # a simulated client waits for a task without one
                actions.append(StartTask(lease=lease))
                continue
            actions += self._task(pull, "train", lease)
            timer = Timer("lease", lease.cid, lease.number)
            at = self._state.at + self.timeouts.lease
            actions.append(SetTimer(timer=timer, at=at))
        return actions

    def _decline(self, record: Declined) -> Refuse:
        """Answers a client whose task was refused, without a model."""
        pull = self._pulls.pop(record.cid, None)
        rest = self._rounds.algorithm.config.update_filter.rest
        assert rest is not None  # or no task would be refused
        return Refuse(
            cid=record.cid,
            nonce=0 if pull is None else pull.nonce,
            answer=Answer.RETRY,
            retry_after=rest,
            reason=record.reason,
        )

    def answer(self) -> list[Action]:
        """Answers waiting pulls for another reason than a lease.

        Evaluators get a version that is due. After the end, all get the last model.
        """
        actions: list[Action] = []
        if self._state.closed and self._pulls:
            for pull in self.withdraw_all():
                actions += self.final(pull)
        elif self._evaluations.waiting:
            for cid in self._evaluations.grant(self._state.version):
                actions += self._task(self._pulls.pop(cid), "evaluate")
        return actions

    def waiting(self, cid: str) -> Pull | None:
        """The pull with which a client waits; None if it does not wait."""
        return self._pulls.get(cid)

    def load(self, pulls: Iterable[Pull]) -> None:
        """Takes over pulls that waited when a snapshot was taken; nothing follows."""
        self._pulls.update((pull.cid, pull) for pull in pulls)

    def withdraw(self, cid: str) -> None:
        """Forgets that a client waits, for a task or to evaluate; it may wait again.

        Args:
            cid: of a client that waits or not.
        """
        self._rounds.leases.withdraw(cid)
        self._evaluations.withdraw(cid)
        self._pulls.pop(cid, None)

    def withdraw_all(self) -> list[Pull]:
        """The pulls of evaluators and then of trainers; nobody waits any longer."""
        waiting = [*self._evaluations.waiting, *self._rounds.leases.waiting]
        pulls = [self._pulls[cid] for cid in waiting if cid in self._pulls]
        for pull in pulls:
            self.withdraw(pull.cid)
        return pulls

    def _task(
        self,
        pull: Pull,
        kind: TaskKind,
        lease: Lease | None = None,
        *,
        done: bool = False,
    ) -> list[Action]:
        """Answers a pull with a task, and makes the record of its lease."""
        state, task = self._state, Task(kind=kind, lease=self.timeouts.lease)
        if lease is None:
            self._evaluations.ask(pull.cid, state.version)
        else:
            cid, version, given = pull.cid, state.version, lease.given
            seq = state.clients[cid].seq
            self._evaluations.begin([cid])
            task = replace(
                task,
                evaluate=self._evaluations.asks(cid, version),
                proof=self._proofs.task(state.epoch, cid, version, seq),
                work=given.work,
                density=given.density,
                samples=given.samples,
            )
        answer = self.reply(pull, task, done=done)
        record = lease_note(answer, kind, state)
        state.note(record)
        return [Persist(record=record), answer]

    def reply(
        self, pull: Pull, task: Task | None = None, *, done: bool = False
    ) -> SendReply:
        """Answers a pull with what is new, and with a task if there is one."""
        return reply_to(pull, self._state, self._proofs, task, done=done)

    def final(self, pull: Pull) -> list[Action]:
        """Answers a pull with the last model, to be evaluated if that is due."""
        if self.is_due_at_end(pull.cid):
            return self._task(pull, "evaluate", done=True)
        return [self.reply(pull, done=True)]

    def is_due_at_end(self, cid: str) -> bool:
        """Whether this client is to evaluate the present version, which is the last.

        Evaluators are, until one of them has done so. Where clients evaluate, each
        trainer is that has not done so itself.
        """
        version = self._state.version
        if self._state.clients[cid].role == "evaluator":
            return self._state.evaluated != version
        return self._evaluations.asks_at_end(cid, version)

    def is_held(self, timer: Timer) -> bool:
        """Whether the pull that this timer is to answer still waits."""
        pull = self._pulls.get(timer.subject)
        return pull is not None and pull.nonce == timer.number

    def hold_passed(self, timer: Timer) -> list[Action]:
        """Answers a pull that has waited long enough, without a task."""
        pull = self._pulls[timer.subject]
        self.withdraw(pull.cid)
        answer = reply_to(pull, self._state, self._proofs, None, done=False, waits=True)
        return [answer, *self.grant()]


# ----------------- the server as a deterministic state machine: events in, actions out


NO_PLACE = "this version holds enough of this client; the message waits for the next"


class Coordinator:
    """The server's side of the protocol. One owner, one thread."""

    def __init__(
        self,
        algorithm: Algorithm,
        initial_D: Vector,
        *,
        epoch: Epoch,
        seed: int = 0,
        stop: StopConfig | None = None,
        evaluate: EvaluateConfig | None = None,
        timeouts: TimeoutsConfig | None = None,
        secret: bytes | None = None,
        served: bool = True,
    ) -> None:
        """A run at version 0; no record is made before :meth:`begin`.

        Args:
            algorithm: what the federation does.
            initial_D: version 0.
            epoch: the name of the first history.
            seed: of all random choices.
            stop: when the run ends.
            evaluate: which versions are evaluated.
            timeouts: how long to wait for what.
            secret: of the run, to make proofs with. Without one, no client can prove
                that this server was set back to an older state.
            served: clients ask for versions, and somebody reads their records; not in
                a replay that only asks for the last model.
        """
        timeouts = timeouts or TimeoutsConfig()
        self.rounds = Rounds(
            algorithm,
            initial_D,
            epoch=epoch,
            seed=seed,
            stop=stop,
            crowd=timeouts.lost,
            served=served,
        )
        self.state = self.rounds.state
        self.evaluations = Evaluations(evaluate or EvaluateConfig())
        self.proofs = Authenticator(secret)
        self.unproved = 0  # claims of a later state that were refused
        self.pulls = Pulls(self.rounds, self.evaluations, timeouts, self.proofs)

    @property
    def algorithm(self) -> Algorithm:
        """Returns what the federation does."""
        return self.rounds.algorithm

    @property
    def timeouts(self) -> TimeoutsConfig:
        """Returns how long it waits for what."""
        return self.pulls.timeouts

    def begin(self, at: Seconds, *, resume: bool = False) -> list[Action]:
        """The first actions of a process, after a fresh start or a restart.

        Args:
            at: the time.
            resume: let an ended run go on if its ``stop`` now lies further away.
        """
        state = self.state
        self.rounds.begin(at)
        actions: list[Action] = []
        if state.closed and resume and not self.rounds.stop_reason():
            actions += self._write(events.RunResumed(at=state.at))
        end = end_of(self.rounds.stop, state.started)
        if end is not None:
            actions.append(SetTimer(timer=Timer("stop"), at=end))
        if state.closed:
            return [*actions, Finish(reason=state.closed)]
        return [*actions, *self.rounds.close_if_due()]

    def amend(
        self,
        algorithm: Algorithm,
        stop: StopConfig,
        evaluate: EvaluateConfig,
        timeouts: TimeoutsConfig,
    ) -> None:
        """Takes over other settings, before the first event of a process."""
        self.rounds.amend(algorithm, stop)
        self.evaluations.config, self.pulls.timeouts = evaluate, timeouts
        self.rounds.crowd = timeouts.lost

    def flush(self, at: Seconds, reason: StepReason = "flush") -> list[Action]:
        """Makes a version of the updates in the buffer, if there are any."""
        return self.rounds.flush(at, reason)

    def proceed(self) -> list[Action]:
        """Makes the version that is due, and gives tasks to clients that wait."""
        return [*self.rounds.advance(), *self.pulls.grant()]

    def handle(self, event: Event) -> list[Action]:
        """Applies an event, and returns what the driver has to do."""
        self.state.touch(event.at)
        match event:
            case events.ClientEnrolled():
                return self._enrol(event)
            case events.Freed():
                return self._free(event)
            case events.ClientPulled():
                return self._pull(event.pull, event.fresh_epoch)
            case events.UpdatePushed():
                return self._push(event)
            case events.Lost():
                return self._lose(event)
            case events.Failed():
                return self._fail(event)
            case events.Skipped():
                return self._skip(event)
            case events.Departed():
                return self._leave(event)
            case events.Evaluated():
                return self._evaluate(event)
            case events.TimerFired():
                return self._fire(event.timer)
            case events.StopRequested():
                return [*self.rounds.close(event.reason), *self.pulls.answer()]
            case events.StateRolledBack():
                return self._open_epoch(event.fresh_epoch, event.reason)
            case events.OperatorAct():
                return self._obey(event)
            case _:
                assert_never(event)

    # ------------------------------------------------------------------ clients

    def _enrol(self, event: events.ClientEnrolled) -> list[Action]:
        result = check_enrolment(event, self.state)
        if isinstance(result, Enrolled):
            return self._write(result)
        return [] if result is None else [result]

    def _free(self, event: events.Freed) -> list[Action]:
        if why_not_freed(event, self.state):
            return []
        return self._write(replace(event, at=self.state.at))

    def _lose(self, event: events.Lost) -> list[Action]:
        """Waits for a client no longer; if it waits after all, it asks again."""
        actions = self._turn_away(event.cid, Answer.RETRY)
        if not self.rounds.leases.lose(event.cid):
            return actions
        record = replace(event, at=self.state.at)
        return [*actions, *self._write(record), *self.proceed()]

    def _fail(self, event: events.Failed) -> list[Action]:
        row = self.state.clients.get(event.cid)
        if row is None or row.evicted is not None:
            return []
        if not self.evaluations.has_trouble(event.cid, "failed"):
            return []
        if row.role == "trainer":
            self.rounds.leases.fail(event.cid)
        record = replace(event, at=self.state.at)
        return [*self._write(record), *self.proceed()]

    def _skip(self, event: events.Skipped) -> list[Action]:
        row = self.state.clients.get(event.cid)
        if row is None or row.evicted is not None:
            return []
        if not self.evaluations.has_trouble(event.cid, "skipped"):
            return []
        return self._write(replace(event, at=self.state.at))

    def _leave(self, event: events.Departed) -> list[Action]:
        row = self.state.clients.get(event.cid)
        if row is None or row.left:
            return []
        self.pulls.withdraw(event.cid)
        self.rounds.leases.lose(event.cid)
        record = replace(event, at=self.state.at)
        return [*self._write(record), *self.proceed()]

    def _obey(self, act: events.Act) -> list[Action]:
        """Carries out an act of the operator, unless it cannot be done."""
        if objection(act, self.state):
            return []
        record = record_of(act, self.state)
        actions = self._write(record)
        match record:
            case events.Paused():
                self.rounds.pause()
            case events.Unpaused():
                actions += self.rounds.unpause()
            case events.Evicted():
                for row in self.state.roster.rows_of(record.name):
                    actions += self._turn_away(row.cid, Answer.UNKNOWN)
                    self.rounds.leases.lose(row.cid)
        return [*actions, *self.proceed()]

    def _turn_away(self, cid: str, answer: Answer) -> list[Action]:
        """Ends the pull with which a client waits, if it does, without a task."""
        pull = self.pulls.waiting(cid)
        self.pulls.withdraw(cid)
        if pull is None:
            return []
        return [Refuse(cid=cid, nonce=pull.nonce, answer=answer)]

    # -------------------------------------------------------------------- pulls

    def _pull(self, pull: Pull, fresh_epoch: Epoch) -> list[Action]:
        row = self.state.clients.get(pull.cid)
        if row is None or row.is_out:
            return [Refuse(cid=pull.cid, nonce=pull.nonce, answer=Answer.UNKNOWN)]
        actions: list[Action] = []
        claims = later_states(row, pull, self.state, self.proofs)
        if claims:
            if not any(claims):
                refusal = Refuse(cid=pull.cid, nonce=pull.nonce, answer=Answer.PROVE)
                return [*self._count_unproved(pull.cid), refusal]
            actions = self._open_epoch(
                fresh_epoch, f"{row.name} knows a later state than this one"
            )
        if self.state.closed:
            return [*actions, *self.pulls.final(pull)]
        if pull.epoch != self.state.epoch:  # to be reconciled before any work
            return [*actions, self.pulls.reply(pull)]
        return [*actions, *self.pulls.wait(pull)]

    def _count_unproved(self, cid: str) -> list[Action]:
        """Counts a refused claim; makes a record at each power of two, to be cheap."""
        self.unproved += 1
        if self.unproved & (self.unproved - 1):
            return []
        news = (self.unproved + 1) // 2  # since the last record
        return self._write(events.Unproved(at=self.state.at, cid=cid, count=news))

    # ------------------------------------------------------------------- pushes

    def _push(self, event: events.UpdatePushed) -> list[Action]:
        push = event.push
        early = self._by_header(push)
        if isinstance(early, Flaw):
            return [*self._reject(push, early, has_task=False), *self.proceed()]
        if early is not None:
            same = push.epoch == push.base.epoch == self.state.epoch
            if same and early.ack.answer is Answer.OTHER_EPOCH:
                # The client claims a later state, and can prove it in a pull.
                return [*self._count_unproved(push.cid), early]
            return [early]
        if event.is_unread:  # it needed no payload when its header came
            return [answer_push(push, Answer.RETRY)]
        decided = self.decide(push, event.opened, has_task=self._has_task(push))
        return [*decided, *self.proceed()]

    def needs_payload(self, push: Push) -> bool:
        """Whether a push is decided on by its payload, and not by its header alone."""
        return self._by_header(push) is None

    def _by_header(self, push: Push) -> SendAck | Flaw | None:
        """Returns the answer to a push, or its flaw, if its header alone tells."""
        if (answer := self._without_verdict(push)) is not None:
            return answer
        has_task = self._has_task(push)
        if not has_task and not self._is_farewell(push):
            return NO_TASK
        if self._is_crowded(push, has_task=has_task):
            return answer_push(push, Answer.RETRY, NO_PLACE)
        return None

    def _without_verdict(self, push: Push) -> SendAck | None:
        """Answers a push that has a verdict or gets none now; None if it gets one."""
        row, state = self.state.clients.get(push.cid), self.state
        if row is None:
            return answer_push(push, Answer.UNKNOWN)
        if row.seq == push.seq and row.receipt is not None:
            if row.receipt.digest != push.digest:
                return answer_push(push, Answer.OBSOLETE)
            return acknowledge(push, state, self.proofs)
        if row.seq >= push.seq:  # 0 stands for no message
            return answer_push(push, Answer.OBSOLETE)
        if row.is_out:
            return answer_push(push, Answer.UNKNOWN)
        if not push.epoch == push.base.epoch == state.epoch:
            return answer_push(push, Answer.OTHER_EPOCH)
        if push.base.version > state.version or row.contradicts(push.settled):
            return answer_push(push, Answer.OTHER_EPOCH)
        if reason := why_waiting(state):
            return answer_push(push, Answer.RETRY, reason)
        return None

    def _has_task(self, push: Push) -> bool:
        """Whether a task stands behind a push: the right to one update.

        It lasts until a message of this client is decided on, whatever becomes of the
        lease. Where the run has no secret, nobody needs to prove it.
        """
        base, seq = push.base.version, self.state.clients[push.cid].seq
        made = self.proofs.task(push.epoch, push.cid, base, seq)
        return self.proofs.allows(push.task, made)

    def _is_farewell(self, push: Push) -> bool:
        """Whether a leaving client sends what its error memory holds, as it may once.

        A memory holds what is left of tasks, so whoever has had none has no memory.
        """
        row = self.state.clients[push.cid]
        may_flush = row.has_trained and not row.has_flushed
        return self.state.remembers and not push.steps and may_flush

    def _is_crowded(self, push: Push, *, has_task: bool) -> bool:
        """Whether a member has used its places in this version, so its update waits.

        A task was given only while there was a place. So this concerns members that
        have been here under several keys, and those that leave a cohort; a client that
        leaves a buffer, and had no other key, needs no place.
        """
        state, cid = self.state, push.cid
        leaves_cohort = self.algorithm.config.synchronous and not has_task
        needs_place = leaves_cohort or len(state.roster.namesakes(cid)) > 1
        if not needs_place or state.closed:
            return False
        return state.entries_of(cid) >= self.rounds.leases.places

    def decide(
        self, push: Push, opened: Opened | None = None, *, has_task: bool = True
    ) -> list[Action]:
        """Decides on the update of a push; makes no version.

        Args:
            push: which may be an update.
            opened: its payload, if it was read before.
            has_task: whether a task stands behind it.
        """
        state = self.state
        update = read_update(push, state, opened, has_task=has_task)
        try:
            decision = judge(update, state)
        except Exception as error:  # noqa: BLE001 -- any error rejects the update
            return self._reject(push, describe_raised(error), has_task=has_task)
        self.rounds.take(update, decision)
        return self._settle(push, update, decision)

    def _reject(self, push: Push, flaw: Flaw, *, has_task: bool) -> list[Action]:
        """Rejects an update without reading it."""
        update = make_update(push, flaw, has_task=has_task)
        decision = judge(update, self.state)
        if update.task:
            self.rounds.take(update, decision)
        return self._settle(push, update, decision)

    def _settle(self, push: Push, update: Arrived, decision: Decision) -> list[Action]:
        """Stores a verdict, and answers with it."""
        record = record_of_update(push, update, decision, self.state)
        self.state.settle(record)
        return [Persist(record=record), acknowledge(push, self.state, self.proofs)]

    def quarantine(self, push: Push, reason: str) -> list[Action]:
        """Rejects an update at which handling raised, without judging it.

        Does nothing if the update has a verdict already or cannot get one.
        """
        row = self.state.clients.get(push.cid)
        if row is None or row.is_out or row.seq >= push.seq:
            return []
        if not push.epoch == push.base.epoch == self.state.epoch:
            return []
        return self._reject(push, unread_flaw(reason), has_task=self._has_task(push))

    # ------------------------------------------------------------------- timers

    def is_void(self, timer: Timer) -> bool:
        """Whether a timer that fires changes nothing."""
        if timer.kind == "hold":
            return not self.pulls.is_held(timer)
        return self.rounds.is_void(timer)

    def is_past(self, timer: Timer) -> bool:
        """Whether a timer will change nothing, whatever happens before it fires.

        The end of a client's newest lease may be void now and not be void later.
        """
        if timer.kind == "lease":
            return not self.rounds.leases.is_newest(timer.subject, timer.number)
        return self.is_void(timer)

    def _fire(self, timer: Timer) -> list[Action]:
        if self.is_void(timer):
            return []
        match timer.kind:
            case "deadline":
                return [*self.rounds.deadline_passed(timer), *self.pulls.grant()]
            case "hold":
                return self.pulls.hold_passed(timer)
            case "lease":
                self.rounds.leases.expire(timer.subject, timer.number)
                return self.proceed()
            case "complete":
                return self.proceed()
            case "stop":
                return [*self.rounds.close_if_due(), *self.pulls.answer()]
            case _:
                assert_never(timer.kind)

    # -------------------------------------------------- evaluation and histories

    def _evaluate(self, event: events.Evaluated) -> list[Action]:
        record = check_evaluation(event, self.state)
        if record is None or not self.evaluations.is_due(event.cid, event.version):
            return []
        actions = self._write(record)
        if self.state.clients[event.cid].role == "trainer":
            self.evaluations.note(event.cid, event.version)
        else:
            actions += self.rounds.close_if_reached(record.values)
            actions += self.pulls.answer()
        return actions

    def _open_epoch(self, epoch: Epoch, reason: str) -> list[Action]:
        """Starts a new history; clients that wait must be reconciled with it first."""
        record = events.HistoryForked(
            at=self.state.at, epoch=epoch, version=self.state.version, reason=reason
        )
        actions, waiting = self._write(record), self.pulls.withdraw_all()
        return [*actions, *map(self.pulls.reply, waiting)]

    def _write(self, record: Note) -> list[Action]:
        """Applies a record to the state, and has it persisted."""
        self.state.note(record)
        return [Persist(record=record)]
