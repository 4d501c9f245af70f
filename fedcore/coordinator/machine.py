"""The server as a deterministic state machine: events in, actions out.

:class:`Coordinator` is the protocol for clients that can be lost: enrolment, pulls,
pushes, receipts, proofs and epochs. Its :class:`Rounds` decide who trains, what an
update counts for, and when a version is made. Equal events give equal models, whether
the gRPC service, a virtual clock, a replayed journal or a test drives it. The order of
the checks is normative (docs/protocol.md): model checking showed where each must be.
"""

from typing import assert_never

from fedcore.algorithm import Algorithm
from fedcore.controllers import USUAL, Assignment
from fedcore.coordinator import events, records
from fedcore.coordinator.actions import (
    Action,
    Finish,
    Persist,
    Refuse,
    SendReply,
    SetTimer,
    StartTask,
)
from fedcore.coordinator.answers import acknowledged, answered, lease_note, replied
from fedcore.coordinator.claims import enrolled, evaluated, later_states
from fedcore.coordinator.evaluations import Evaluations
from fedcore.coordinator.events import Event, Timer
from fedcore.coordinator.opened import Opened
from fedcore.coordinator.records import Decided, Enrolled, Note, StepReason
from fedcore.coordinator.rounds import Rounds
from fedcore.coordinator.settings import EvaluateConfig, StopConfig, TimeoutsConfig
from fedcore.coordinator.verdicts import judge, quarantined
from fedcore.payloads import Payload
from fedcore.proofs import Authenticator
from fedcore.protocol import Answer, Epoch, Pull, Push, Task, TaskKind
from fedcore.typing import Seconds, Vector


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
        """
        self.rounds = Rounds(algorithm, initial_D, epoch=epoch, seed=seed, stop=stop)
        self.state = self.rounds.state
        self.timeouts = timeouts or TimeoutsConfig()
        self.evaluations = Evaluations(evaluate or EvaluateConfig())
        self.proofs = Authenticator(secret)
        self.unproved = 0  # claims of a later state that were refused
        self._pulls: dict[str, Pull] = {}  # of the clients that wait for a task

    @property
    def algorithm(self) -> Algorithm:
        """What the federation does."""
        return self.rounds.algorithm

    def begin(self, at: Seconds, *, resume: bool = False) -> list[Action]:
        """The first actions of a process, after a fresh start or a restart.

        Args:
            at: the time.
            resume: let an ended run go on if its ``stop`` now lies further away.
        """
        state = self.state
        state.touch(at)
        actions: list[Action] = []
        if state.closed and resume and not self.rounds.stop_reason():
            actions += self._write(records.RunResumed(at=state.at))
        end = self.rounds.stop.end(state.started)
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
        self.evaluations.config, self.timeouts = evaluate, timeouts

    def flush(self, at: Seconds, reason: StepReason = "flush") -> list[Action]:
        """Makes a version of the updates in the buffer, if there are any."""
        return self.rounds.flush(at, reason)

    def handle(self, event: Event) -> list[Action]:
        """Applies an event, and returns what the driver has to do."""
        self.state.touch(event.at)
        match event:
            case events.ClientEnrolled():
                return self._enrol(event)
            case events.NameFreed():
                return self._free(event.name)
            case events.ClientPulled():
                return self._pull(event.pull, event.fresh_epoch)
            case events.UpdatePushed():
                return self._push(event.push, event.opened)
            case events.ClientLost():
                return self._lose(event.cid)
            case events.ClientFailed():
                return self._fail(event)
            case events.SamplesSkipped():
                return self._skip(event)
            case events.ClientLeft():
                return self._leave(event.cid)
            case events.ModelEvaluated():
                return self._evaluate(event)
            case events.TimerFired():
                return self._fire(event.timer)
            case events.StopRequested():
                return [*self.rounds.close(event.reason), *self.answer()]
            case events.StateRolledBack():
                return self._open_epoch(event.fresh_epoch, event.reason)
            case _:
                assert_never(event)

    # ------------------------------------------------------------------ clients

    def _enrol(self, event: events.ClientEnrolled) -> list[Action]:
        result = enrolled(event, self.state)
        if isinstance(result, Enrolled):
            return self._write(result)
        return [] if result is None else [result]

    def _free(self, name: str) -> list[Action]:
        if name not in self.state.owners:
            return []
        return self._write(records.Freed(at=self.state.at, name=name))

    def _lose(self, cid: str) -> list[Action]:
        self._withdraw(cid)
        if not self.rounds.leases.lose(cid):
            return []
        record = records.Lost(at=self.state.at, cid=cid)
        return [*self._write(record), *self._grant()]

    def _fail(self, event: events.ClientFailed) -> list[Action]:
        row = self.state.clients.get(event.cid)
        if row is None:
            return []
        if row.role == "trainer":
            self.rounds.leases.deliver(event.cid)
        record = records.Failed(at=self.state.at, cid=event.cid, error=event.error)
        return [*self._write(record), *self._grant()]

    def _skip(self, event: events.SamplesSkipped) -> list[Action]:
        if event.cid not in self.state.clients:
            return []
        at, cid = self.state.at, event.cid
        record = records.Skipped(at=at, cid=cid, count=event.count, why=event.why)
        return self._write(record)

    def _leave(self, cid: str) -> list[Action]:
        row = self.state.clients.get(cid)
        if row is None or row.left:
            return []
        self._withdraw(cid)
        self.rounds.leases.lose(cid)
        record = records.Departed(at=self.state.at, cid=cid)
        return [*self._write(record), *self._grant()]

    # -------------------------------------------------------------------- pulls

    def _pull(self, pull: Pull, fresh_epoch: Epoch) -> list[Action]:
        row = self.state.clients.get(pull.cid)
        if row is None or row.left:
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
            return [*actions, *self._final(pull)]
        if pull.epoch != self.state.epoch:
            return [*actions, self._reply(pull)]  # to be reconciled before any work
        if row.role == "evaluator":
            self.rounds.leases.lose(pull.cid)  # if it was a trainer before
            self.evaluations.arrive(pull.cid, self.state.evaluated)
        else:
            self.evaluations.withdraw(pull.cid)
            self.rounds.leases.arrive(pull.cid)
        self._pulls[pull.cid] = pull
        actions += self._grant()
        if pull.cid in self._pulls:
            timer = Timer("hold", pull.cid, pull.nonce)
            at = self.state.at + self.timeouts.hold
            actions.append(SetTimer(timer=timer, at=at))
        return actions

    def _count_unproved(self, cid: str) -> list[Action]:
        """Counts a refused claim; makes a record at each power of two, to be cheap."""
        self.unproved += 1
        if self.unproved & (self.unproved - 1):
            return []
        news = (self.unproved + 1) // 2  # since the last record
        return self._write(records.Unproved(at=self.state.at, cid=cid, count=news))

    def _grant(self) -> list[Action]:
        """Gives tasks to those who wait and may have one, evaluators first.

        The order decides who gets a shorter patch (:class:`Published`), and whether a
        deadline or a lease of the same length ends first: simulations keep to it.
        """
        actions = self.answer()
        is_done = False
        while not is_done:  # whoever is refused makes room for others
            leases, timers = self.rounds.grant(self.state.at)
            actions += timers
            is_done = True
            for lease in leases:
                pull = self._pulls.pop(lease.cid, None)
                if pull is None:
                    actions.append(StartTask(lease=lease))
                    continue
                given = self.rounds.assign(pull.cid, pull.device)
                declined = self.rounds.review(pull.cid, pull.plan, given)
                if declined is not None:
                    actions += self._decline(pull, declined)
                    is_done = False
                    continue
                actions += self._task(pull, "train", given)
                timer = Timer("lease", lease.cid, lease.number)
                at = self.state.at + self.timeouts.lease
                actions.append(SetTimer(timer=timer, at=at))
        return actions

    def _decline(self, pull: Pull, record: records.Declined) -> list[Action]:
        """Answers a pull whose task was refused, without a model."""
        rest = self.algorithm.config.update_filter.rest
        refusal = Refuse(
            cid=pull.cid,
            nonce=pull.nonce,
            answer=Answer.RETRY,
            retry_after=rest or 0.0,
            reason=record.reason,
        )
        return [Persist(record=record), refusal]

    def answer(self) -> list[Action]:
        """Answers waiting pulls for another reason than a lease.

        Evaluators get a version that is due. After the end, all get the last model.
        Call it after driving :attr:`rounds` directly.
        """
        actions: list[Action] = []
        if self.state.closed and self._pulls:
            for pull in self._withdraw_all():
                actions += self._final(pull)
        elif self.evaluations.waiting:
            for cid in self.evaluations.grant(self.state.version):
                actions += self._task(self._pulls.pop(cid), "evaluate")
        return actions

    def _withdraw(self, cid: str) -> None:
        """A client no longer waits."""
        self.rounds.leases.withdraw(cid)
        self.evaluations.withdraw(cid)
        self._pulls.pop(cid, None)

    def _withdraw_all(self) -> list[Pull]:
        """The pulls of evaluators and then of trainers; nobody waits any longer."""
        waiting = [*self.evaluations.waiting, *self.rounds.leases.waiting]
        pulls = [self._pulls[cid] for cid in waiting if cid in self._pulls]
        for pull in pulls:
            self._withdraw(pull.cid)
        return pulls

    def _task(
        self,
        pull: Pull,
        kind: TaskKind,
        given: Assignment = USUAL,
        *,
        done: bool = False,
    ) -> list[Action]:
        """Answers a pull with a task, and makes the record of its lease."""
        state, evaluate = self.state, False
        if kind == "train":
            evaluate = self.evaluations.asks(pull.cid, state.version)
        task = Task(
            kind=kind,
            evaluate=evaluate,
            lease=self.timeouts.lease,
            work=given.work,
            density=given.density,
            samples=given.samples,
        )
        answer = self._reply(pull, task, done=done)
        return [*self._write(lease_note(answer, kind, state)), answer]

    def _reply(
        self, pull: Pull, task: Task | None = None, *, done: bool = False
    ) -> SendReply:
        return replied(pull, self.state, self.proofs, task, done=done)

    def _final(self, pull: Pull) -> list[Action]:
        """Answers a pull with the last model, to be evaluated if that is due."""
        if self.is_due_at_end(pull.cid):
            return self._task(pull, "evaluate", done=True)
        return [self._reply(pull, done=True)]

    def is_due_at_end(self, cid: str) -> bool:
        """Whether this client is to evaluate the present version, which is the last.

        Evaluators are, until one of them has done so. Where clients evaluate, each
        trainer is that has not done so itself.
        """
        version = self.state.version
        if self.state.clients[cid].role == "evaluator":
            return self.state.evaluated != version
        return self.evaluations.asks_at_end(cid, version)

    # ------------------------------------------------------------------- pushes

    def _push(self, push: Push, opened: Opened | None) -> list[Action]:
        row = self.state.clients.get(push.cid)
        if row is None:
            return [answered(push, Answer.UNKNOWN)]
        if row.seq == push.seq and row.receipt is not None:
            if row.receipt.digest != push.digest:
                return [answered(push, Answer.OBSOLETE)]
            return [acknowledged(push, self.state, self.proofs)]
        if row.seq >= push.seq:  # 0 stands for no message
            return [answered(push, Answer.OBSOLETE)]
        if row.left:
            return [answered(push, Answer.UNKNOWN)]
        if not push.epoch == push.base.epoch == self.state.epoch:
            return [answered(push, Answer.OTHER_EPOCH)]
        if push.base.version > self.state.version or row.contradicts(push.settled):
            # The client can prove its claim in a pull.
            refusal = answered(push, Answer.OTHER_EPOCH)
            return [*self._count_unproved(push.cid), refusal]
        actions = self._decide(push, *judge(push, self.state, opened))
        return [*actions, *self.rounds.advance(), *self._grant()]

    def _decide(
        self, push: Push, record: Decided, payload: Payload | None
    ) -> list[Action]:
        self.state.decide(record, payload)
        self.rounds.leases.deliver(push.cid)
        return [Persist(record=record), acknowledged(push, self.state, self.proofs)]

    def quarantine(self, push: Push, reason: str) -> list[Action]:
        """Rejects an update at which handling raised, without judging it.

        Does nothing if the update has a verdict already or cannot get one.
        """
        row = self.state.clients.get(push.cid)
        if row is None or row.left or row.seq >= push.seq:
            return []
        if not push.epoch == push.base.epoch == self.state.epoch:
            return []
        return self._decide(push, quarantined(push, self.state, reason), None)

    # ------------------------------------------------------------------- timers

    def _fire(self, timer: Timer) -> list[Action]:
        match timer.kind:
            case "deadline":
                if self.rounds.is_void(timer):
                    return []
                return [*self.rounds.deadline_passed(timer), *self._grant()]
            case "hold":
                return self._hold_passed(timer)
            case "lease":
                self.rounds.leases.expire(timer.subject, timer.number)
                return self._grant()
            case "stop":
                return [*self.rounds.close_if_due(), *self.answer()]
            case _:
                assert_never(timer.kind)

    def _hold_passed(self, timer: Timer) -> list[Action]:
        pull = self._pulls.get(timer.subject)
        if pull is None or pull.nonce != timer.number:
            return []
        self._withdraw(pull.cid)
        return [self._reply(pull), *self._grant()]

    # -------------------------------------------------- evaluation and histories

    def _evaluate(self, event: events.ModelEvaluated) -> list[Action]:
        record = evaluated(event, self.state)
        if record is None:
            return []
        actions = self._write(record)
        if self.state.clients[event.cid].role == "trainer":
            self.evaluations.note(event.cid, event.version)
        else:
            actions += [*self.rounds.close_if_reached(record.values), *self.answer()]
        return actions

    def _open_epoch(self, epoch: Epoch, reason: str) -> list[Action]:
        """Starts a new history; clients that wait must be reconciled with it first."""
        record = records.HistoryForked(
            at=self.state.at, epoch=epoch, version=self.state.version, reason=reason
        )
        actions = self._write(record)
        return [*actions, *(self._reply(pull) for pull in self._withdraw_all())]

    def _write(self, record: Note) -> list[Action]:
        """Applies a record to the state, and has it persisted."""
        self.state.note(record)
        return [Persist(record=record)]
