"""The server as a deterministic state machine: events in, actions out.

:class:`Coordinator` is the protocol for clients that can be lost: enrolment, pulls,
pushes, receipts, proofs and epochs. Its :class:`Rounds` decide who trains, what an
update counts for, and when a version is made. Equal events give equal models, whether
the gRPC service, a virtual clock, a replayed journal or a test drives it. The order of
the checks is normative (docs/protocol.md): model checking showed where each must be.
"""

from typing import assert_never

from fedcore.algorithm import Algorithm
from fedcore.coordinator import events, records
from fedcore.coordinator.actions import Action, Finish, Persist, Refuse, SetTimer
from fedcore.coordinator.acts import objection, record_of, why_not_freed
from fedcore.coordinator.answers import acknowledged, answered
from fedcore.coordinator.claims import enrolled, evaluated, later_states
from fedcore.coordinator.evaluations import Evaluations
from fedcore.coordinator.events import Event, Timer
from fedcore.coordinator.opened import Opened
from fedcore.coordinator.pulls import Pulls
from fedcore.coordinator.records import Decided, Enrolled, Note, StepReason
from fedcore.coordinator.rounds import Rounds
from fedcore.coordinator.settings import EvaluateConfig, StopConfig, TimeoutsConfig
from fedcore.coordinator.verdicts import judge, quarantined
from fedcore.payloads import Payload
from fedcore.proofs import Authenticator
from fedcore.protocol import Answer, Epoch, Pull, Push
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
        self.rounds = Rounds(
            algorithm, initial_D, epoch=epoch, seed=seed, stop=stop, served=served
        )
        self.state = self.rounds.state
        self.evaluations = Evaluations(evaluate or EvaluateConfig())
        self.proofs = Authenticator(secret)
        self.unproved = 0  # claims of a later state that were refused
        self.pulls = Pulls(
            self.rounds, self.evaluations, timeouts or TimeoutsConfig(), self.proofs
        )

    @property
    def algorithm(self) -> Algorithm:
        """What the federation does."""
        return self.rounds.algorithm

    @property
    def timeouts(self) -> TimeoutsConfig:
        """How long it waits for what."""
        return self.pulls.timeouts

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
        self.evaluations.config, self.pulls.timeouts = evaluate, timeouts

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
                return self._free(event)
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
                return [*self.rounds.close(event.reason), *self.pulls.answer()]
            case events.StateRolledBack():
                return self._open_epoch(event.fresh_epoch, event.reason)
            case (
                records.Paused()
                | records.Unpaused()
                | records.Evicted()
                | records.Readmitted()
                | records.SnapshotOrdered()
            ):
                return self._obey(event)
            case _:
                assert_never(event)

    # ------------------------------------------------------------------ clients

    def _enrol(self, event: events.ClientEnrolled) -> list[Action]:
        result = enrolled(event, self.state)
        if isinstance(result, Enrolled):
            return self._write(result)
        return [] if result is None else [result]

    def _free(self, event: events.NameFreed) -> list[Action]:
        if why_not_freed(event, self.state):
            return []
        return self._write(records.Freed(at=self.state.at, name=event.name))

    def _lose(self, cid: str) -> list[Action]:
        self.pulls.withdraw(cid)
        if not self.rounds.leases.lose(cid):
            return []
        record = records.Lost(at=self.state.at, cid=cid)
        return [*self._write(record), *self.pulls.grant()]

    def _fail(self, event: events.ClientFailed) -> list[Action]:
        row = self.state.clients.get(event.cid)
        if row is None or row.evicted is not None:
            return []
        if not self.evaluations.has_trouble(event.cid, "failed"):
            return []
        if row.role == "trainer":
            self.rounds.leases.deliver(event.cid)
        record = records.Failed(at=self.state.at, cid=event.cid, error=event.error)
        return [*self._write(record), *self.pulls.grant()]

    def _skip(self, event: events.SamplesSkipped) -> list[Action]:
        row = self.state.clients.get(event.cid)
        if row is None or row.evicted is not None:
            return []
        if not self.evaluations.has_trouble(event.cid, "skipped"):
            return []
        at, cid = self.state.at, event.cid
        record = records.Skipped(at=at, cid=cid, count=event.count, why=event.why)
        return self._write(record)

    def _leave(self, cid: str) -> list[Action]:
        row = self.state.clients.get(cid)
        if row is None or row.left:
            return []
        self.pulls.withdraw(cid)
        self.rounds.leases.lose(cid)
        record = records.Departed(at=self.state.at, cid=cid)
        return [*self._write(record), *self.pulls.grant()]

    def _obey(self, act: records.Act) -> list[Action]:
        """Carries out an act of the operator, unless it cannot be done."""
        if objection(act, self.state):
            return []
        record = record_of(act, self.state)
        actions = self._write(record)
        match record:
            case records.Paused():
                self.rounds.pause()
            case records.Unpaused():
                actions += self.rounds.unpause()
            case records.Evicted():
                for row in self.state.roster.named(record.name):
                    actions += self._shut_out(row.cid)
        return [*actions, *self.pulls.grant()]

    def _shut_out(self, cid: str) -> list[Action]:
        """Ends the lease of a client, and the pull with which it waits."""
        pull = self.pulls.waiting(cid)
        self.pulls.withdraw(cid)
        self.rounds.leases.lose(cid)
        if pull is None:
            return []
        return [Refuse(cid=cid, nonce=pull.nonce, answer=Answer.UNKNOWN)]

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
        return self._write(records.Unproved(at=self.state.at, cid=cid, count=news))

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
        if row.is_out:
            return [answered(push, Answer.UNKNOWN)]
        if not push.epoch == push.base.epoch == self.state.epoch:
            return [answered(push, Answer.OTHER_EPOCH)]
        if push.base.version > self.state.version or row.contradicts(push.settled):
            # The client can prove its claim in a pull.
            refusal = answered(push, Answer.OTHER_EPOCH)
            return [*self._count_unproved(push.cid), refusal]
        actions = self._decide(push, *judge(push, self.state, opened))
        return [*actions, *self.rounds.advance(), *self.pulls.grant()]

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
        if row is None or row.is_out or row.seq >= push.seq:
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
                return [*self.rounds.deadline_passed(timer), *self.pulls.grant()]
            case "hold":
                return self.pulls.hold_passed(timer)
            case "lease":
                self.rounds.leases.expire(timer.subject, timer.number)
                return self.pulls.grant()
            case "stop":
                return [*self.rounds.close_if_due(), *self.pulls.answer()]
            case _:
                assert_never(timer.kind)

    # -------------------------------------------------- evaluation and histories

    def _evaluate(self, event: events.ModelEvaluated) -> list[Action]:
        record = evaluated(event, self.state)
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
        record = records.HistoryForked(
            at=self.state.at, epoch=epoch, version=self.state.version, reason=reason
        )
        actions, waiting = self._write(record), self.pulls.withdraw_all()
        return [*actions, *map(self.pulls.reply, waiting)]

    def _write(self, record: Note) -> list[Action]:
        """Applies a record to the state, and has it persisted."""
        self.state.note(record)
        return [Persist(record=record)]
