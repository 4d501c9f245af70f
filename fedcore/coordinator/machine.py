"""The server as a deterministic state machine: events in, actions out.

Synchronous, semi-synchronous and asynchronous federations are one machine. Equal
events give equal models, whoever drives it: the gRPC service, the simulator's
virtual clock, a replayed journal, or a test. The order of the checks is normative
(docs/protocol.md): each was placed where model checking showed that it must be.
"""

import math
from typing import assert_never

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import norm
from fedcore.compressors import Identity
from fedcore.coordinator.actions import (
    Action,
    Finish,
    Persist,
    Refuse,
    SendReply,
    SetTimer,
)
from fedcore.coordinator.answers import acknowledged, answered, lease_note, replied
from fedcore.coordinator.clients import ClientRow
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientFailed,
    ClientLeft,
    ClientLost,
    ClientPulled,
    Event,
    HistoryReopened,
    ModelMeasured,
    NameFreed,
    SamplesSkipped,
    StopRequested,
    Timer,
    TimerFired,
    UpdatePushed,
    UpdatesEntered,
)
from fedcore.coordinator.examinations import Examinations
from fedcore.coordinator.leases import Leases
from fedcore.coordinator.opened import Opened
from fedcore.coordinator.records import (
    Admitted,
    Closed,
    Decided,
    Departed,
    EpochOpened,
    Failed,
    Freed,
    Lost,
    Measured,
    Note,
    Reopened,
    Skipped,
    Stepped,
    StepReason,
    Unproved,
)
from fedcore.coordinator.settings import (
    EvaluateConfig,
    StopConfig,
    TimeoutsConfig,
    reached,
)
from fedcore.coordinator.state import ServerState
from fedcore.coordinator.verdicts import judge, quarantined
from fedcore.payloads import Payload
from fedcore.proofs import Authenticator
from fedcore.protocol import (
    Answer,
    Epoch,
    Pull,
    Push,
    Task,
    TaskKind,
)
from fedcore.rng import Key
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
        """Nothing is written before :meth:`begin`.

        Args:
            algorithm: what the federation does.
            initial_D: version 0.
            epoch: the name of the first history.
            seed: of all that is drawn here.
            stop: when the run ends.
            evaluate: which versions are evaluated.
            timeouts: how long to wait for what.
            secret: of the run, for the proofs of what leaves it; without one, no
                client can prove that this server was set back.
        """
        self.algorithm = algorithm
        self.state = ServerState(algorithm, initial_D, epoch)
        self.stop = stop or StopConfig()
        self.evaluate = evaluate or EvaluateConfig()
        self.timeouts = timeouts or TimeoutsConfig()
        self._key = Key.root(seed).fold_in("server")
        self.leases = Leases[Pull | None](algorithm, self._key, self._name_of)
        self.examinations = Examinations()
        self.proofs = Authenticator(secret)
        self.unproved = 0  # claims of a later state that were refused
        self._deadline: Timer | None = None

    def begin(self, at: Seconds, *, reopen: bool = False) -> list[Action]:
        """The first actions of a process: after a fresh start or a restart.

        ``reopen`` lets an ended run go on, if its ``stop`` now lies further away.
        """
        state = self.state
        state.touch(at)
        actions: list[Action] = []
        if state.closed and reopen and not self._stop_reason():
            actions += self._write(Reopened(at=state.at))
        end = self.stop.end(state.started)
        if end is not None:
            actions.append(SetTimer(timer=Timer("stop"), at=end))
        if state.closed:
            return [*actions, Finish(reason=state.closed)]
        return [*actions, *self._close_if_due()]

    def amend(
        self,
        algorithm: Algorithm,
        stop: StopConfig,
        evaluate: EvaluateConfig,
        timeouts: TimeoutsConfig,
    ) -> None:
        """Goes on with other settings; before the first event of a process."""
        self.state.amend(algorithm)
        self.algorithm, self.stop = algorithm, stop
        self.evaluate, self.timeouts = evaluate, timeouts
        self.leases = Leases[Pull | None](algorithm, self._key, self._name_of)

    def flush(self, at: Seconds, reason: StepReason = "flush") -> list[Action]:
        """Applies what is in the buffer now."""
        self.state.touch(at)
        return self._step(reason) if self.state.count else []

    def handle(self, event: Event) -> list[Action]:
        """What follows from an event."""
        self.state.touch(event.at)
        match event:
            case ClientEnrolled():
                return self._enrol(event)
            case NameFreed():
                return self._free(event.name)
            case ClientPulled():
                return self._pull(event.pull, event.fresh_epoch)
            case UpdatePushed():
                return self._push(event.push, event.opened)
            case ClientLost():
                return self._lose(event.cid)
            case ClientFailed():
                return self._fail(event)
            case SamplesSkipped():
                return self._skip(event)
            case ClientLeft():
                return self._leave(event.cid)
            case ModelMeasured():
                return self._measure(event)
            case TimerFired():
                return self._fire(event.timer)
            case StopRequested():
                return [] if self.state.closed else self._close(event.reason)
            case HistoryReopened():
                return self._open_epoch(event.fresh_epoch, event.reason)
            case UpdatesEntered():
                return []  # they were decided on already
            case _:
                assert_never(event)

    # ------------------------------------------------------------------ clients

    def _enrol(self, event: ClientEnrolled) -> list[Action]:
        row = self.state.clients.get(event.cid)
        if row is not None and row.left:  # a tombstone stays one
            return [Refuse(cid=event.cid, nonce=0, answer=Answer.OBSOLETE)]
        owner = self.state.owners.get(event.name, "")
        if owner not in ("", event.owner) and not event.certified:
            return [Refuse(cid=event.cid, nonce=0, answer=Answer.UNKNOWN)]
        told = (event.name, event.role, event.owner, event.index, event.count)
        if row is not None and (row.name, row.role, owner, *row.place) == told:
            return []
        record = Admitted(
            at=self.state.at,
            cid=event.cid,
            name=event.name,
            role=event.role,
            index=event.index,
            count=event.count,
            owner=event.owner,
        )
        return self._write(record)

    def _free(self, name: str) -> list[Action]:
        if name not in self.state.owners:
            return []
        return self._write(Freed(at=self.state.at, name=name))

    def _lose(self, cid: str) -> list[Action]:
        self.examinations.withdraw(cid)
        if not self.leases.lose(cid):
            return []
        return [*self._write(Lost(at=self.state.at, cid=cid)), *self._hand_out()]

    def _fail(self, event: ClientFailed) -> list[Action]:
        row = self.state.clients.get(event.cid)
        if row is None:
            return []
        if row.role == "trainer":
            self.leases.deliver(event.cid)
        record = Failed(at=self.state.at, cid=event.cid, error=event.error)
        return [*self._write(record), *self._hand_out()]

    def _skip(self, event: SamplesSkipped) -> list[Action]:
        if event.cid not in self.state.clients:
            return []
        return self._write(
            Skipped(at=self.state.at, cid=event.cid, count=event.count, why=event.why)
        )

    def _leave(self, cid: str) -> list[Action]:
        row = self.state.clients.get(cid)
        if row is None or row.left:
            return []
        self.leases.lose(cid)
        self.examinations.withdraw(cid)
        return [*self._write(Departed(at=self.state.at, cid=cid)), *self._hand_out()]

    # -------------------------------------------------------------------- pulls

    def _pull(self, pull: Pull, fresh_epoch: Epoch) -> list[Action]:
        row = self.state.clients.get(pull.cid)
        if row is None or row.left:
            return [Refuse(cid=pull.cid, nonce=pull.nonce, answer=Answer.UNKNOWN)]
        actions: list[Action] = []
        claims = self._claims(row, pull)
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
            self.examinations.arrive(pull, self.state.measured)
        else:
            self.leases.arrive(pull.cid, pull)
        actions += self._hand_out()
        if self._waits(pull.cid):
            actions += self._hold(pull)
        return actions

    def _hold(self, pull: Pull) -> list[Action]:
        """Whoever waits is answered after a while in any case."""
        timer = Timer("hold", pull.cid, pull.nonce)
        return [SetTimer(timer=timer, at=self.state.at + self.timeouts.hold)]

    def _claims(self, row: ClientRow, pull: Pull) -> list[bool]:
        """What a client says of a later state than this one; whether it is proved.

        Nobody can know a later state of this history unless the server was set back.
        """
        state, proofs = self.state, self.proofs
        claims = [
            proofs.confirms(left.proof, proofs.left(left.epoch))
            for left in pull.abandoned
            if left.epoch == state.epoch
        ]
        if pull.epoch != state.epoch:
            return claims
        held, settled = pull.held, pull.settled
        if held is not None and held.version > state.version:
            made = proofs.version(state.epoch, held.version)
            claims.append(proofs.confirms(held.proof, made))
        if row.contradicts(settled):
            made = proofs.verdict(state.epoch, row.cid, settled.seq, settled.verdict)
            claims.append(proofs.confirms(settled.proof, made))
        return claims

    def _count_unproved(self, cid: str) -> list[Action]:
        """A claim is refused; noted at each power of two, so that it stays cheap."""
        self.unproved += 1
        if self.unproved & (self.unproved - 1):
            return []
        news = (self.unproved + 1) // 2  # since it was noted last
        return self._write(Unproved(at=self.state.at, cid=cid, count=news))

    def _hand_out(self) -> list[Action]:
        """Gives tasks to whoever waits and may have one."""
        if self.state.closed:
            return []
        actions = self._start_training()
        for pull in self.examinations.grant(self.state.version, self.evaluate):
            actions += self._task(pull, "evaluate")
        return actions

    def _start_training(self) -> list[Action]:
        """Gives those tasks that are leased."""
        actions: list[Action] = []
        for _, pull, lease in self.leases.grant(self.state.version, self.state.count):
            assert pull is not None
            actions += self._task(pull, "train")
            timer = Timer("lease", pull.cid, lease.number)
            actions.append(
                SetTimer(timer=timer, at=self.state.at + self.timeouts.lease)
            )
            actions += self._arm_deadline()
        return actions

    def _name_of(self, cid: str) -> str:
        return self.state.clients[cid].name

    def _waits(self, cid: str) -> Pull | None:
        return self.leases.parked.get(cid) or self.examinations.waiting.get(cid)

    def _withdraw_all(self) -> list[Pull]:
        """Whoever waits, waits no more."""
        waiting = [*self.leases.parked.values(), *self.examinations.waiting.values()]
        pulls = [pull for pull in waiting if pull is not None]
        for pull in pulls:
            self.leases.withdraw(pull.cid)
            self.examinations.withdraw(pull.cid)
        return pulls

    def _task(self, pull: Pull, kind: TaskKind) -> list[Action]:
        evaluate = kind == "train" and self.examinations.asks(
            pull.cid, self.state.version, self.evaluate
        )
        task = Task(kind=kind, evaluate=evaluate, lease=self.timeouts.lease)
        return self._leased(self._reply(pull, task), task.kind)

    def _leased(self, answer: SendReply, kind: TaskKind) -> list[Action]:
        """A task, and the note of it."""
        return [*self._write(lease_note(answer, kind, self.state)), answer]

    def _arm_deadline(self) -> list[Action]:
        if self.algorithm.config.deadline is None or self._deadline is not None:
            return []
        self._deadline = Timer("deadline", str(self.leases.attempt), self.state.version)
        at = self.state.at + self.algorithm.config.deadline
        return [SetTimer(timer=self._deadline, at=at)]

    def _reply(
        self, pull: Pull, task: Task | None = None, *, done: bool = False
    ) -> SendReply:
        return replied(pull, self.state, self.proofs, task, done=done)

    def _final(self, pull: Pull) -> list[Action]:
        """The last model; an evaluator measures it, unless that was done.

        So does a trainer, where clients evaluate.
        """
        if not self.is_due_at_end(pull.cid):
            return [self._reply(pull, done=True)]
        task = Task(kind="evaluate", lease=self.timeouts.lease)
        return self._leased(self._reply(pull, task, done=True), "evaluate")

    def is_due_at_end(self, cid: str) -> bool:
        """Whether this client is to measure the last version, which is the present one.

        Each evaluator does unless one has; of trainers, each one for itself.
        """
        version = self.state.version
        if self.state.clients[cid].role == "evaluator":
            return self.state.measured != version
        return self.examinations.asks_at_end(cid, version, self.evaluate)

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
            # It is to pull: there it can prove what it claims.
            refusal = answered(push, Answer.OTHER_EPOCH)
            return [*self._count_unproved(push.cid), refusal]
        actions = self._decide(push, *judge(push, self.state, opened))
        if self.state.count >= self.algorithm.config.buffer:
            actions += self._step("buffer")
        actions += self._close_if_due()
        return [*actions, *self._hand_out()]

    def _decide(
        self, push: Push, record: Decided, payload: Payload | None
    ) -> list[Action]:
        actions = self._write(record, payload)
        self.leases.deliver(push.cid)
        return [*actions, acknowledged(push, self.state, self.proofs)]

    def quarantine(self, push: Push, reason: str) -> list[Action]:
        """Decides an update that raised when it was handled, without judging it.

        Nothing follows from one that is not there to be decided.
        """
        row = self.state.clients.get(push.cid)
        if row is None or row.left or row.seq >= push.seq:
            return []
        if not push.epoch == push.base.epoch == self.state.epoch:
            return []
        return self._decide(push, quarantined(push, self.state, reason), None)

    # -------------------------------------------------------------------- steps

    def _step(self, reason: StepReason) -> list[Action]:
        state, count, samples = self.state, self.state.count, self.state.samples
        packed = state.step(self._message)
        gap = 0.0
        if packed:
            gap = norm(state.published.public_D - state.exact_D)
        self._deadline = None
        self.leases.new_cohort(same_version=False)
        record = Stepped(
            at=state.at,
            version=state.version,
            reason=reason,
            count=count,
            samples=samples,
            digest=state.published.digest,
            gap_norm=gap,
            nbytes=len(packed) or state.published.model_bytes,
            payload=packed,
        )
        return [Persist(record=record)]

    def _message(self, gap_D: Vector) -> tuple[bytes, Payload] | None:
        """What is published of W - X; None where X itself is."""
        if isinstance(self.algorithm.config.downlink, Identity):
            return None
        key = self._key.fold_in("downlink", self.state.version + 1)
        downlink = self.algorithm.downlink.at(self.state.published.context)
        payload, _ = downlink.encode(gap_D, None, key)
        packed = payloads.pack(payload)
        return packed, payloads.unpack(packed, self.algorithm.spec.sizes)

    def _fire(self, timer: Timer) -> list[Action]:
        match timer.kind:
            case "deadline":
                return self._deadline_passed(timer)
            case "hold":
                return self._hold_passed(timer)
            case "lease":
                self.leases.expire(timer.subject, timer.number)
                return self._hand_out()
            case "stop":
                return self._close_if_due()
            case _:
                assert_never(timer.kind)

    def is_void(self, timer: Timer) -> bool:
        """Whether it is the deadline of a cohort that is through."""
        return timer.kind == "deadline" and timer != self._deadline

    def _deadline_passed(self, timer: Timer) -> list[Action]:
        if self.is_void(timer) or self.state.closed:
            return []
        self._deadline = None
        if self.state.count >= self.algorithm.config.minimum:
            return [*self._step("deadline"), *self._close_if_due(), *self._hand_out()]
        self.leases.new_cohort(same_version=True)
        return [*self._hand_out(), *self._arm_deadline()]

    def _hold_passed(self, timer: Timer) -> list[Action]:
        pull = self._waits(timer.subject)
        if pull is None or pull.nonce != timer.number:
            return []
        self.leases.withdraw(pull.cid)
        self.examinations.withdraw(pull.cid)
        return [self._reply(pull)]

    # ---------------------------------------------------------------------- end

    def _measure(self, event: ModelMeasured) -> list[Action]:
        row = self.state.clients.get(event.cid)
        values = {k: float(v) for k, v in event.values.items() if math.isfinite(v)}
        if row is None or not 0 <= event.version <= self.state.version:
            return []
        record = Measured(
            at=self.state.at,
            cid=event.cid,
            version=event.version,
            values=values,
            samples=max(0, event.samples),
        )
        actions = self._write(record)
        if row.role == "trainer":
            self.examinations.note(event.cid, event.version)
        if row.role == "evaluator" and reached(self.stop.target, values):
            actions += [] if self.state.closed else self._close("target reached")
        return actions

    def _stop_reason(self) -> str | None:
        state = self.state
        updates = state.applied + state.count
        return self.stop.reason(state.version, updates, state.started, state.at)

    def _close_if_due(self) -> list[Action]:
        reason = self._stop_reason()
        return self._close(reason) if reason and not self.state.closed else []

    def _close(self, reason: str) -> list[Action]:
        """Applies what is in the buffer, ends the run, and answers all who wait."""
        actions = self.flush(self.state.at)
        actions += self._write(
            Closed(at=self.state.at, version=self.state.version, reason=reason)
        )
        for pull in self._withdraw_all():
            actions += self._final(pull)
        return [*actions, Finish(reason=reason)]

    def _open_epoch(self, epoch: Epoch, reason: str) -> list[Action]:
        """A new history: whoever waits must be reconciled with it first."""
        record = EpochOpened(
            at=self.state.at, epoch=epoch, version=self.state.version, reason=reason
        )
        actions = self._write(record)
        return [*actions, *(self._reply(pull) for pull in self._withdraw_all())]

    def _write(
        self, record: Note | Decided, payload: Payload | None = None
    ) -> list[Action]:
        if isinstance(record, Decided):
            self.state.decide(record, payload)
        else:
            self.state.note(record)
        return [Persist(record=record)]
