"""A client's side of the protocol, sans I/O.

Whoever drives a participant saves ``state`` after each call that changed it and
before anything is sent: each call is one transaction. A kill between two calls
then loses nothing and doubles nothing (docs/protocol.md).

An update is one message in flight, named by sequence number and digest. Only the
server's verdict settles what the client keeps. The rooms beside this one
(``updates``, ``verdicts``, ``models``, ``histories``) are functions from a state to
the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedcore.algorithm import Algorithm
from fedcore.controllers import NOTHING, Assignment, Report, Wanted
from fedcore.errors import ProtocolError
from fedcore.measured import Device
from fedcore.params import version_0
from fedcore.participant import histories, keeping, models, updates, verdicts
from fedcore.participant.message import start_of
from fedcore.participant.state import (
    Outcome,
    OutdatedError,
    ParticipantState,
    Trained,
    WrongModelError,
)
from fedcore.protocol import (
    HISTORY,
    Ack,
    Answer,
    Held,
    ModelName,
    Plan,
    Proof,
    Pull,
    Push,
    Reply,
    Verdict,
)
from fedcore.rng import Key
from fedcore.typing import Bytes, Seconds, Vector


class Participant:
    """One client of one run."""

    def __init__(self, algorithm: Algorithm, state: ParticipantState) -> None:
        self.algorithm = algorithm
        self._nonce: int | None = None
        self._asked = 0  # the newest message that was settled when it pulled
        self._proving = False  # the server wants to see proofs
        self._tasks: dict[ModelName, Proof] = {}  # the rights to the next update
        # A message that comes from the disk was sent before.
        self._sendings = 0 if state.pending is None else 1
        self._wrong_full = 0
        self.unusable = ""  # why the last update was not used, in words
        if state.memory_D is None:
            state = replace(state, memory_D=algorithm.uplink.init(algorithm.spec.dim))
        self.state = keeping.taken_over(algorithm, state)

    # -------------------------------------------------------------------- pulls

    def derive(self, initial_D: Vector, origin: str) -> None:
        """Version 0 need not travel: here it is, if it has the digest ``origin``."""
        if self.state.held is not None:
            return
        public_D = version_0(self.algorithm.spec.extend(initial_D), origin)
        if public_D is not None:
            held = Held(self.state.epoch, 0, origin)
            self.state = replace(self.state, held=held, public_D=public_D)

    def pull(
        self, nonce: int, device: Device | None = None, plan: Plan | None = None
    ) -> Pull:
        """Asks for the model; only the answer with this nonce counts.

        Args:
            nonce: a number that was not used before.
            device: where a controller at the server looks at it.
            plan: where the server's update filter judges tasks by it.
        """
        self._nonce, self._asked = nonce, self.state.settled.seq
        state = self.state if self._proving else histories.without_proofs(self.state)
        undecided = state.seq if state.pending is not None else state.seq + 1
        oldest = min((sent.seq for sent in state.history), default=undecided)
        return Pull(
            cid=state.cid,
            nonce=nonce,
            epoch=state.epoch,
            held=state.held,
            abandoned=state.abandoned,
            settled=state.settled,
            history_from=oldest,
            device=device,
            plan=plan,
        )

    def prove(self, nonce: int) -> bool:
        """Takes the server's request for proofs; the next pull shows them.

        Says whether that was the answer to the outstanding pull.

        Raises:
            OutdatedError: the proofs were shown, and it does not believe them.
        """
        if nonce != self._nonce:
            return False
        self._nonce = None
        if self._proving:
            raise OutdatedError(
                "the server has no memory of what this state directory holds, and "
                "does not believe its proofs"
            )
        self._proving = True
        return True

    def receive(self, reply: Reply, messages: Sequence[Bytes] | None = None) -> bool:
        """Reconciles with the server's history, then takes over its model.

        Says whether the reply was for the outstanding pull. ``messages`` are the
        patch's payloads, if they did not come inside the reply.

        Raises:
            OutdatedError: this disk was rolled back; enrol anew under another cid.
            WrongModelError: the digests differ; the model was dropped, pull again.
            ProtocolError: the full model has the wrong digest, twice.
        """
        if reply.nonce != self._nonce:
            return False
        self._nonce, self._proving = None, False
        histories.check_disk(self.state, reply.receipt)
        state = histories.reconciled(
            self.algorithm, self.state, reply, sent_once=self._sendings == 1
        )
        patch, layout = reply.patch, self.algorithm.spec.sizes
        try:
            self.state = models.installed(state, reply, messages, layout)
        except WrongModelError as error:
            self._wrong_full += patch.kind == "full"
            if self._wrong_full >= 2:
                raise ProtocolError(
                    f"version {patch.version} arrived whole twice, and twice with "
                    f"another digest than the server's {patch.digest}"
                ) from error
            self.state = models.dropped(state)
            raise
        self._wrong_full = 0
        if (task := reply.task) is not None:
            given = Assignment(task.work, task.density, task.samples)
            self.state = replace(self.state, given=given)
            decided = reply.receipt.seq if reply.receipt else self._asked
            if task.kind == "train":
                self._keep_task(task.proof, decided)
        return True

    def _keep_task(self, proof: Proof, decided: int) -> None:
        """Keeps the right to an update that is trained on the model that is held.

        It is worth nothing where the client had asked while a message was in flight:
        the decision on that one has used it up.

        Args:
            proof: of the task.
            decided: the last message that was decided on when the task was given.
        """
        held, state = self.state.held, self.state
        assert held is not None
        if state.pending is not None or decided != state.settled.seq:
            return
        self._tasks[ModelName(held.epoch, held.version)] = proof
        while len(self._tasks) > HISTORY:
            del self._tasks[next(iter(self._tasks))]

    # -------------------------------------------------------------- controllers

    def rest(self, at: Seconds, beside: int = 0) -> Seconds:
        """Returns how long to send nothing, as the controllers say.

        Args:
            at: now.
            beside: bytes that the next exchange takes beside its payload, about.
        """
        controller, state = self.algorithm.controller, self.state
        if controller is None:
            return 0.0
        pending = state.pending
        nbytes = state.patch if pending is None else len(pending.push.payload)
        return controller.rest(state.controlled, nbytes + beside, at)

    def observe(self, report: Report) -> None:
        """Tells the controllers what happened."""
        controller, state = self.algorithm.controller, self.state
        if controller is not None:
            controlled = controller.observe(state.controlled, report)
            self.state = replace(state, controlled=controlled)

    @property
    def wants(self) -> frozenset[Wanted]:
        """The models that the client is to evaluate for the controllers."""
        controller, state = self.algorithm.controller, self.state.controlled
        return NOTHING if controller is None else controller.wants(state)

    def own_model(self, trained: Trained) -> Vector:
        """Returns the model at which the client's steps have ended."""
        state, uplink = self.state, self.algorithm.config.uplink
        assert state.public_D is not None
        start_D: Vector = start_of(uplink, state.public_D, state.memory_D)
        return start_D - trained.delta_D

    def note_task(self, at: Seconds, own: Mapping[str, float] | None) -> None:
        """Tells the controllers of the message that a task has just made.

        Args:
            at: now.
            own: metrics of the client's own model, if they want them.
        """
        if self.state.pending is not None:
            share = len(self.state.pending.push.payload) / (4 * self.algorithm.spec.dim)
            self.observe(Report(at=at, message=share, own=own))

    # ------------------------------------------------------------------ updates

    def finish(self, trained: Trained, base: ModelName, key: Key) -> bool:
        """Makes the message of a task; says whether there is one to send now.

        ``unusable`` says in words why the update was dropped, if it was.
        """
        before = self.state.seq
        self.state, self.unusable = updates.finished(
            self.algorithm, self.state, trained, base, key, self._tasks.get(base, 0)
        )
        return self._is_sending(before)

    def flush(self) -> bool:
        """Makes a message of all that the memory holds, before a planned leave."""
        before = self.state.seq
        self.state = updates.farewell(self.state, self._tasks) or self.state
        return self._is_sending(before)

    def _is_sending(self, before: int) -> bool:
        """Returns whether a message was made since the one of this number."""
        is_new = self.state.seq > before
        if is_new:
            self._sendings = 0
            self._tasks.clear()  # the next decision uses them all up
        return is_new

    def push(self) -> Push:
        """Returns the message in flight, to be sent, first or again."""
        assert self.state.pending is not None
        self._sendings += 1
        return self.state.pending.push

    def leave(self) -> None:
        """Ends the client for good; what its memory holds is booked as lost."""
        self.state = updates.gone(self.state)

    # ----------------------------------------------------------------- verdicts

    def settle(self, ack: Ack) -> Outcome:
        """Takes an answer to a push; only a verdict on these very bytes settles it.

        Raises:
            OutdatedError: the server has decided on a later or another message.
            ProtocolError: two messages in a row were malformed for the same reason.
        """
        pending = self.state.pending
        if pending is None or (ack.seq, ack.digest) != (
            pending.push.seq,
            pending.push.digest,
        ):
            return Outcome.IGNORED
        match ack.answer:
            case Verdict():
                self.state = verdicts.settled(
                    self.algorithm,
                    self.state,
                    ack.answer,
                    ack.proof,
                    sent_once=self._sendings == 1,
                )
                self.state = verdicts.complained(self.state, ack)
                return Outcome.SETTLED
            case Answer.OBSOLETE:
                raise OutdatedError(
                    f"the server has decided on a message after {ack.seq}: the state "
                    "directory was restored from an old copy"
                )
            case Answer.UNKNOWN:
                return Outcome.ENROL
            case Answer.OTHER_EPOCH:
                return Outcome.PULL
            case _:
                return Outcome.RETRY
