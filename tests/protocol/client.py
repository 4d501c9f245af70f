"""A client of the model check: the real participant and state directory."""

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from fedclient.state.store import ClientStore
from fedcore.algorithm import Algorithm
from fedcore.participant import (
    Participant,
    ParticipantState,
    Start,
    Trained,
    WrongModelError,
    may_use,
    start_ahead,
)
from fedcore.protocol import Ack, ModelName, Reply, Verdict
from fedcore.rng import Key
from fedcore.typing import Vector
from tests.protocol.ghost import (
    ClientGhost,
    Exact,
    ViolationError,
    differ,
    nothing,
    vector,
)
from tests.protocol.parts import TOLERANCE


class CheckedClient:
    """A client process that can be killed, and the ghost of what it learnt.

    The ghost is saved with the disk: an update that was not saved never was one.
    """

    def __init__(
        self,
        name: str,
        algorithm: Algorithm,
        place: Path | None,
        tolerance: float,
    ) -> None:
        self.name, self.algorithm = name, algorithm
        self._tolerance = tolerance
        self._place = place
        self._disk: ParticipantState | None = None
        self._store: ClientStore | None = None
        self._lives = 0
        self.sound = True  # its books can be checked

    # ------------------------------------------------------------- identity

    def enrol(self, run_id: str, epoch: str, initial: Vector, origin: str) -> str:
        """Begins anew under a new id."""
        self._lives += 1
        cid = f"{self.name}.{self._lives}"
        self.ghost = self.saved_ghost = ClientGhost()
        self.sound = True
        self.training: tuple[ModelName, object] | None = None
        self.has_flushed = False  # it may send its memory without a task once
        self.start: Start | None = None  # of steps that are taken ahead
        self.participant = Participant(
            self.algorithm, ParticipantState(cid, run_id, epoch)
        )
        self.participant.derive(initial, origin)
        if self._store is not None:
            self._store.forget()
        self.save()
        return cid

    @property
    def cid(self) -> str:
        return self.participant.state.cid

    @property
    def saved_epoch(self) -> str | None:
        return None if self._disk is None else self._disk.epoch

    # ----------------------------------------------------------------- disk

    def save(self) -> None:
        """One durable transaction."""
        if self._place is not None:
            if self._store is None:
                self._store = ClientStore(self._place, durable=False)
            self._store.save(self.participant.state)
        self._disk = self.participant.state
        self.saved_ghost = self.ghost.copy()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def crash(self) -> None:
        """What was not saved is gone."""
        state = self._disk
        if self._place is not None and self._store is not None:
            self._store.close()
            self._store = ClientStore(self._place, durable=False)
            state = self._store.load()
        assert state is not None
        self.participant = Participant(self.algorithm, state)
        self.ghost = self.saved_ghost.copy()
        self.training = self.start = None

    def copy_disk(self) -> Any:
        """A copy of the state directory."""
        if self._place is None:
            return copy.copy(self._disk), self.saved_ghost.copy()
        assert self._store is not None
        self._store.close()
        target = self._place.with_name(f"{self._place.name}-old")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self._place, target)
        self._store = ClientStore(self._place, durable=False)
        self._store.load()
        return target, self.saved_ghost.copy()

    def restore_disk(self, old: Any) -> None:
        """The state directory is replaced by an old copy; the books are off then."""
        what, ghost = old
        if self._place is None:
            self._disk = what
        else:
            assert self._store is not None
            self._store.close()
            shutil.rmtree(self._place)
            shutil.copytree(what, self._place)
            self._store = ClientStore(self._place, durable=False)
        self.saved_ghost = ghost.copy()
        self.crash()
        self.sound = False

    # ------------------------------------------------------------ operations

    def begin_training(self, *, hasty: bool) -> bool:
        """Begins on the model that it holds.

        A hasty client needs no task, and nobody does for steps that are taken ahead.
        """
        state = self.participant.state
        if state.held is None or state.public_D is None:
            return False
        base = ModelName(state.held.epoch, state.held.version)
        self.start = start_ahead(self.algorithm, state)
        if not (hasty or self.start is not None or self.has_task(base)):
            return False
        self.training = base, state.public_D
        return True

    def has_task(self, base: ModelName) -> bool:
        """Whether the server has given it a task that its next message may use."""
        return base in self.participant._tasks

    def finish_training(self, delta: Exact, samples: int, number: int) -> None:
        """The update of a task; the raw mass is in the books from here on."""
        assert self.training is not None
        base, _ = self.training
        if self.overlaps:
            self._meet(delta, samples, number)
            return
        self.training = None
        state = self.participant.state
        before = self._memory()
        delta_D = delta.astype(np.float32)
        self.participant.finish(
            Trained(delta_D, samples=samples, steps=1), base, Key.root(number)
        )
        self.ghost.raw = self.ghost.raw + delta
        if not delta.any() and state.pending is None:
            after = self._memory() + pending_mass(self.participant.state)
            if differ(after, before, self._tolerance):
                raise ViolationError("I14: an empty round changed the memory")

    @property
    def overlaps(self) -> bool:
        return self.algorithm.config.client.overlaps

    def _meet(self, steps: Exact, samples: int, number: int) -> None:
        """Steps from the client's own model meet the public one, and are sent.

        They wait until the message before them was decided on, as the worker does; a
        hasty client does not, and then nothing may come of it.
        """
        state = self.participant.state
        is_hasty = state.pending is not None and number % 5 == 0
        if state.public_D is None or (state.pending is not None and not is_hasty):
            return
        assert self.training is not None
        assert state.held is not None
        base, public_D = self.training
        start, self.training, self.start = self.start, None, None
        own_D = public_D
        if start is not None:
            if not may_use(self.algorithm, state, start):
                return
            own_D, public_D = start.kept[:-1], state.public_D
            base = ModelName(state.held.epoch, state.held.version)
        assert isinstance(public_D, np.ndarray)
        assert isinstance(own_D, np.ndarray)
        meet = self.algorithm.config.client.build().meet
        assert meet is not None
        end_D = np.append(own_D - steps.astype(np.float32), np.float32(1))
        delta_D, kept = meet(public_D, end_D)
        task = Trained(delta_D, samples=samples, steps=1, kept=kept)
        self.participant.finish(task, base, Key.root(number))
        if is_hasty or base.epoch != state.epoch:
            return
        local, public = self.ghost.local, public_D.astype(np.float64)
        self.ghost.local = ((public if local is None else local) - steps + public) / 2

    def receive(self, reply: Reply) -> bool:
        """Says whether it was for this client now."""
        before = self.participant.state
        try:
            taken = self.participant.receive(reply)
        except WrongModelError as error:
            raise ViolationError(f"I5: {self.cid}: {error}") from error
        pending, receipt = before.pending, reply.receipt
        if taken and pending and receipt and receipt.seq == pending.push.seq:
            self._book_discard(before, receipt.verdict)
        other = before.epoch != self.participant.state.epoch
        if other:
            self.ghost.local = None
        self._book_forgotten(before, reply.accepted if other else None)
        return taken

    def settle(self, ack: Ack) -> object:
        """Takes an answer to a push."""
        before = self.participant.state
        outcome = self.participant.settle(ack)
        if before.pending is not None and self.participant.state.pending is None:
            push = before.pending.push
            if (ack.seq, ack.digest) != (push.seq, push.digest):
                raise ViolationError(
                    f"I12: {self.cid} settled by another message's verdict"
                )
            self._book_discard(before, ack.answer)
        self._book_forgotten(before)
        return outcome

    def leave(self) -> None:
        self.ghost.lost = self.ghost.lost + self._memory()
        self.participant.leave()

    def _book_discard(self, before: ParticipantState, answer: object) -> None:
        if answer is Verdict.DISCARDED and self.participant.state.pending is None:
            assert before.pending is not None
            q = vector(before.pending.push.payload)
            self.ghost.discarded = self.ghost.discarded + q
            if self.ghost.local is not None:
                self.ghost.local = self.ghost.local + q

    def _book_forgotten(
        self, before: ParticipantState, accepted: tuple[int, ...] | None = None
    ) -> None:
        """Messages that leave the history, as they stood when they left it."""
        kept = {sent.seq for sent in self.participant.state.history}
        for sent in before.history:
            if sent.seq not in kept:
                was_in = sent.in_model if accepted is None else sent.seq in accepted
                self.ghost.forgotten[sent.seq] = (vector(sent.payload), was_in)

    # ---------------------------------------------------------------- checks

    def _memory(self) -> Exact:
        memory_D = self.participant.state.memory_D
        return nothing() if memory_D is None else memory_D.astype(np.float64)

    def _check_local(self, state: ParticipantState) -> None:
        """I18: a client's own model holds each of its steps once.

        What was rejected remains in it, what was discarded does not, and another
        history of the server begins it anew.
        """
        local = self.saved_ghost.local
        if (state.kept is None) != (local is None):
            raise ViolationError(f"I18: {state.cid} keeps {state.kept}, not {local}")
        if local is not None and differ(state.kept[:-1], local, TOLERANCE):
            raise ViolationError(
                f"I18: the model of {state.cid} is {state.kept[:-1].tolist()}, not "
                f"{local.tolist()}"
            )

    def check(
        self,
        accepted: dict[tuple[str, int], Exact],
        *,
        reconciled: bool,
        restored: bool,
    ) -> None:
        """I1: what was learnt is in the memory, in flight, in the model, or booked.

        Only before it is ``reconciled`` with a history may a client's notes on its
        past messages differ from it, and only after a restore may messages that it
        has forgotten.
        """
        if not self.sound or self._disk is None:
            return
        state, ghost = self._disk, self.saved_ghost
        if self.overlaps:
            self._check_local(state)
            return
        assert state.memory_D is not None
        in_model = {seq: q for (cid, seq), q in accepted.items() if cid == state.cid}
        counted = state.pending is not None and state.pending.push.seq in in_model
        total = state.memory_D.astype(np.float64)
        total = total + pending_mass(state, counted=counted)
        total = total + sum(in_model.values(), nothing())
        total = total + ghost.discarded + ghost.lost
        notes = {s.seq: (vector(s.payload), s.in_model) for s in state.history}
        for past, may_differ in ((notes, not reconciled), (ghost.forgotten, restored)):
            for seq, (q, was_in) in past.items():
                if was_in != (seq in in_model):
                    if not may_differ:
                        raise ViolationError(
                            f"I1: {state.cid} takes message {seq} for "
                            f"{'accepted' if was_in else 'not accepted'}, and it is "
                            "not so"
                        )
                    total = total + q if was_in else total - q
        if differ(total, ghost.raw, self._tolerance):
            raise ViolationError(
                f"I1: {state.cid} has learnt {ghost.raw.tolist()}, "
                f"and {total.tolist()} is accounted for"
            )


def pending_mass(state: ParticipantState, *, counted: bool = False) -> Exact:
    """What the message in flight and its residual hold, unless the message counts."""
    pending = state.pending
    if pending is None:
        return nothing()
    assert pending.residual_D is not None
    mass = pending.residual_D.astype(np.float64)
    return mass if counted else mass + vector(pending.push.payload)
