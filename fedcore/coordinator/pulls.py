"""Pulls that wait: who gets a task, and how each pull is answered."""

from collections.abc import Iterable
from dataclasses import replace

from fedcore.coordinator.actions import (
    Action,
    Persist,
    Refuse,
    SendReply,
    SetTimer,
    StartTask,
)
from fedcore.coordinator.answers import lease_note, replied
from fedcore.coordinator.evaluations import Evaluations
from fedcore.coordinator.events import Timer
from fedcore.coordinator.leases import Lease
from fedcore.coordinator.records import Declined
from fedcore.coordinator.rounds import Asked, Rounds
from fedcore.coordinator.settings import TimeoutsConfig
from fedcore.proofs import Authenticator
from fedcore.protocol import Answer, Pull, Task, TaskKind


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
        rounds.asked = self._asked

    def _asked(self, cid: str) -> Asked:
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
        return replied(pull, self._state, self._proofs, task, done=done)

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

    def hold_passed(self, timer: Timer) -> list[Action]:
        """Answers a pull that has waited long enough, without a task."""
        pull = self._pulls.get(timer.subject)
        if pull is None or pull.nonce != timer.number:
            return []
        self.withdraw(pull.cid)
        answer = replied(pull, self._state, self._proofs, None, done=False, waits=True)
        return [answer, *self.grant()]
