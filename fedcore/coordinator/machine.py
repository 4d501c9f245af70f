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
    SendAck,
    SendReply,
    SetTimer,
)
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
    StopRequested,
    Timer,
    TimerFired,
    UpdatePushed,
)
from fedcore.coordinator.leases import Leases
from fedcore.coordinator.records import (
    Admitted,
    Closed,
    Decided,
    Departed,
    EpochOpened,
    Failed,
    Leased,
    Lost,
    Measured,
    Reopened,
    Stepped,
    StepReason,
)
from fedcore.coordinator.settings import (
    EvaluateConfig,
    StopConfig,
    TimeoutsConfig,
    reached,
)
from fedcore.coordinator.state import ServerState
from fedcore.coordinator.verdicts import judge
from fedcore.payloads import Payload
from fedcore.protocol import (
    Ack,
    Answer,
    Epoch,
    Pull,
    Push,
    Reply,
    Settled,
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
    ) -> None:
        self.algorithm = algorithm
        self.state = ServerState(algorithm, initial_D, epoch)
        self.stop = stop or StopConfig()
        self.evaluate = evaluate or EvaluateConfig()
        self.timeouts = timeouts or TimeoutsConfig()
        self._key = Key.root(seed).fold_in("server")
        self.leases = Leases(algorithm, self._key)
        self._examiners: dict[str, Pull] = {}  # evaluators that wait for a version
        self._examined: int | None = None  # the newest version given to an evaluator
        self._asked: dict[
            str, int
        ] = {}  # the newest version that a trainer shall evaluate
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
        if self.stop.seconds is not None and state.started is not None:
            actions.append(
                SetTimer(timer=Timer("stop"), at=state.started + self.stop.seconds)
            )
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
        self.leases = Leases(algorithm, self._key)

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
            case ClientPulled():
                return self._pull(event.pull, event.fresh_epoch)
            case UpdatePushed():
                return self._push(event.push, event.fresh_epoch)
            case ClientLost():
                return self._lose(event.cid)
            case ClientFailed():
                return self._fail(event)
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
            case _:
                assert_never(event)

    # ------------------------------------------------------------------ clients

    def _enrol(self, event: ClientEnrolled) -> list[Action]:
        row = self.state.clients.get(event.cid)
        if row is not None and row.left:  # a tombstone stays one
            return [Refuse(cid=event.cid, nonce=0, answer=Answer.OBSOLETE)]
        if row is not None and (row.name, row.role) == (event.name, event.role):
            return []
        record = Admitted(
            at=self.state.at,
            cid=event.cid,
            name=event.name,
            role=event.role,
            index=event.index,
            count=event.count,
        )
        return self._write(record)

    def _lose(self, cid: str) -> list[Action]:
        self._examiners.pop(cid, None)
        if not self.leases.lose(cid):
            return []
        return [*self._write(Lost(at=self.state.at, cid=cid)), *self._hand_out()]

    def _fail(self, event: ClientFailed) -> list[Action]:
        if event.cid not in self.state.clients:
            return []
        self.leases.deliver(event.cid)
        record = Failed(at=self.state.at, cid=event.cid, error=event.error)
        return [*self._write(record), *self._hand_out()]

    def _leave(self, cid: str) -> list[Action]:
        row = self.state.clients.get(cid)
        if row is None or row.left:
            return []
        self.leases.lose(cid)
        return [*self._write(Departed(at=self.state.at, cid=cid)), *self._hand_out()]

    # -------------------------------------------------------------------- pulls

    def _pull(self, pull: Pull, fresh_epoch: Epoch) -> list[Action]:
        row = self.state.clients.get(pull.cid)
        if row is None or row.left:
            return [Refuse(cid=pull.cid, nonce=pull.nonce, answer=Answer.UNKNOWN)]
        actions: list[Action] = []
        if pull.epoch == self.state.epoch and self._knows_more(
            row, pull.settled, pull.held.version if pull.held else 0
        ):
            actions = self._open_epoch(
                fresh_epoch, f"{row.name} knows a later state than this one"
            )
        if self.state.closed:
            return [*actions, *self._final(pull)]
        if pull.epoch != self.state.epoch:
            return [*actions, self._reply(pull)]  # to be reconciled before any work
        if row.role == "evaluator":
            self._examiners[pull.cid] = pull
            self._examined = self.state.measured  # what was not measured is given again
        else:
            self.leases.arrive(pull)
        actions += self._hand_out()
        if pull.cid in self.leases.parked or pull.cid in self._examiners:
            timer = Timer("hold", pull.cid, pull.nonce)
            actions.append(SetTimer(timer=timer, at=self.state.at + self.timeouts.hold))
        return actions

    def _knows_more(self, row: ClientRow, settled: Settled, version: int) -> bool:
        """Whether a client has proof that this server was rolled back.

        A later verdict or version than any given here, or another verdict on the
        same message.
        """
        receipt = row.receipt
        other = (
            receipt is not None
            and settled.seq == receipt.seq
            and (settled.verdict is not receipt.verdict)
        )
        return other or settled.seq > row.seq or version > self.state.version

    def _hand_out(self) -> list[Action]:
        """Gives tasks to whoever waits and may have one."""
        if self.state.closed:
            return []
        actions: list[Action] = []
        for pull, lease in self.leases.grant(self.state.version, self.state.count):
            actions += self._task(pull, "train")
            timer = Timer("lease", pull.cid, lease.number)
            actions.append(
                SetTimer(timer=timer, at=self.state.at + self.timeouts.lease)
            )
            actions += self._arm_deadline()
        if self._examination_due():
            for cid in list(self._examiners):
                actions += self._task(self._examiners.pop(cid), "evaluate")
                self._examined = self.state.version
        return actions

    def _examination_due(self) -> bool:
        if self._examined is None:
            return True
        return self.state.version - self._examined >= self.evaluate.every_versions

    def _task(self, pull: Pull, kind: TaskKind) -> list[Action]:
        version, cid = self.state.version, pull.cid
        evaluate = False
        if kind == "train" and self.evaluate.clients:
            every = self.evaluate.every_versions
            evaluate = version - self._asked.get(cid, -every) >= every
            if evaluate:
                self._asked[cid] = version
        task = Task(kind=kind, evaluate=evaluate, lease=self.timeouts.lease)
        return self._leased(self._reply(pull, task), task.kind)

    def _leased(self, answer: SendReply, kind: TaskKind) -> list[Action]:
        """A task, and the note of it."""
        patch = answer.reply.patch
        record = Leased(
            at=self.state.at,
            cid=answer.cid,
            version=self.state.version,
            task=kind,
            patch=patch.kind,
            nbytes=patch.nbytes,
        )
        return [*self._write(record), answer]

    def _arm_deadline(self) -> list[Action]:
        if self.algorithm.config.deadline is None or self._deadline is not None:
            return []
        self._deadline = Timer("deadline", str(self.leases.attempt), self.state.version)
        at = self.state.at + self.algorithm.config.deadline
        return [SetTimer(timer=self._deadline, at=at)]

    def _reply(
        self, pull: Pull, task: Task | None = None, *, done: bool = False
    ) -> SendReply:
        row, published = self.state.clients[pull.cid], self.state.published
        other = pull.epoch != self.state.epoch
        return SendReply(
            cid=pull.cid,
            reply=Reply(
                nonce=pull.nonce,
                patch=published.patch(None if other else pull.held),
                receipt=row.receipt,
                accepted=tuple(s for s in row.accepted if s >= pull.history_from)
                if other
                else (),
                task=task,
                done=done,
            ),
        )

    def _final(self, pull: Pull) -> list[Action]:
        """The last model; an evaluator measures it, unless that was done."""
        if (
            self.state.clients[pull.cid].role != "evaluator"
            or self.state.measured == self.state.version
        ):
            return [self._reply(pull, done=True)]
        task = Task(kind="evaluate", lease=self.timeouts.drain)
        return self._leased(self._reply(pull, task, done=True), "evaluate")

    # ------------------------------------------------------------------- pushes

    def _push(self, push: Push, fresh_epoch: Epoch) -> list[Action]:
        row = self.state.clients.get(push.cid)
        if row is None:
            return [self._answer(push, Answer.UNKNOWN)]
        if row.seq == push.seq and row.receipt is not None:
            if row.receipt.digest != push.digest:
                return [self._answer(push, Answer.OBSOLETE)]
            return [self._acknowledge(push.cid)]
        if row.seq > push.seq:
            return [self._answer(push, Answer.OBSOLETE)]
        if row.left:
            return [self._answer(push, Answer.UNKNOWN)]
        if not push.epoch == push.base.epoch == self.state.epoch:
            return [self._answer(push, Answer.OTHER_EPOCH)]
        if self._knows_more(row, push.settled, push.base.version):
            reason = f"{row.name} knows a later state than this one"
            opened = self._open_epoch(fresh_epoch, reason)
            return [*opened, self._answer(push, Answer.OTHER_EPOCH)]
        record, payload = judge(push, self.state)
        actions = self._write(record, payload)
        self.leases.deliver(push.cid)
        actions.append(self._acknowledge(push.cid))
        if self.state.count >= self.algorithm.config.buffer:
            actions += self._step("buffer")
        actions += self._close_if_due()
        return [*actions, *self._hand_out()]

    def _acknowledge(self, cid: str) -> SendAck:
        receipt = self.state.clients[cid].receipt
        assert receipt is not None
        ack = Ack(
            seq=receipt.seq,
            digest=receipt.digest,
            answer=receipt.verdict,
            weight=receipt.weight,
            version=receipt.version,
            reason=self.state.clients[cid].reason,
        )
        return SendAck(cid=cid, ack=ack)

    def _answer(self, push: Push, answer: Answer) -> SendAck:
        return SendAck(
            cid=push.cid, ack=Ack(seq=push.seq, digest=push.digest, answer=answer)
        )

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
        payload, _ = self.algorithm.downlink.encode(gap_D, None, key)
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

    def _deadline_passed(self, timer: Timer) -> list[Action]:
        if timer != self._deadline or self.state.closed:
            return []
        self._deadline = None
        if self.state.count >= self.algorithm.config.minimum:
            return [*self._step("deadline"), *self._close_if_due(), *self._hand_out()]
        self.leases.new_cohort(same_version=True)
        return [*self._hand_out(), *self._arm_deadline()]

    def _hold_passed(self, timer: Timer) -> list[Action]:
        pull = self.leases.parked.get(timer.subject) or self._examiners.get(
            timer.subject
        )
        if pull is None or pull.nonce != timer.number:
            return []
        self.leases.withdraw(pull.cid)
        self._examiners.pop(pull.cid, None)
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
        if row.role == "evaluator" and reached(self.stop.target, values):
            actions += [] if self.state.closed else self._close("target reached")
        return actions

    def _stop_reason(self) -> str | None:
        state, stop = self.state, self.stop
        if stop.versions is not None and state.version >= stop.versions:
            return f"{stop.versions} versions"
        if stop.updates is not None and state.applied + state.count >= stop.updates:
            return f"{stop.updates} updates"
        if (
            stop.seconds is not None
            and state.started is not None
            and state.at >= state.started + stop.seconds
        ):
            return f"{stop.seconds:g} seconds"
        return None

    def _close_if_due(self) -> list[Action]:
        reason = self._stop_reason()
        return self._close(reason) if reason and not self.state.closed else []

    def _close(self, reason: str) -> list[Action]:
        """Applies what is in the buffer, ends the run, and answers all who wait."""
        actions = self.flush(self.state.at)
        actions += self._write(
            Closed(at=self.state.at, version=self.state.version, reason=reason)
        )
        waiting = [*self.leases.parked.values(), *self._examiners.values()]
        self._examiners.clear()
        for pull in waiting:
            self.leases.withdraw(pull.cid)
            actions += self._final(pull)
        return [*actions, Finish(reason=reason)]

    def _open_epoch(self, epoch: Epoch, reason: str) -> list[Action]:
        """A new history: whoever waits must be reconciled with it first."""
        record = EpochOpened(
            at=self.state.at, epoch=epoch, version=self.state.version, reason=reason
        )
        actions = self._write(record)
        for pull in [*self.leases.parked.values(), *self._examiners.values()]:
            self.leases.withdraw(pull.cid)
            actions.append(self._reply(pull))
        self._examiners.clear()
        return actions

    def _write(
        self,
        record: Admitted
        | Decided
        | EpochOpened
        | Departed
        | Measured
        | Closed
        | Reopened
        | Failed
        | Leased
        | Lost,
        payload: Payload | None = None,
    ) -> list[Action]:
        if isinstance(record, Decided):
            self.state.decide(record, payload)
        else:
            self.state.note(record)
        return [Persist(record=record)]
