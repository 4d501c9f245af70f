"""A client's side of the protocol, sans I/O.

Whoever drives a participant saves ``state`` after each call that changed it and
before anything is sent: each call is one transaction. A kill between two calls
then loses nothing and doubles nothing (docs/protocol.md).

An update is one message in flight, named by sequence number and digest. Only the
server's verdict settles what the client keeps. :class:`Participant` holds the state;
the functions below it lead from a state to the next, in the order of a task: its update
becomes a message, the verdict settles it, another history is reconciled, a patch
leads to the next model. The arithmetic of messages, shared with stacks of simulated
clients, is in :mod:`fedcore.participant.message`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import norm, norms
from fedcore.clients import fork_state, split_kept, without_method
from fedcore.clients import take_back as back
from fedcore.compressors import Context
from fedcore.controllers import NOTHING, Assignment, Report, Wanted, join
from fedcore.errors import PayloadError, ProtocolError
from fedcore.measured import Device
from fedcore.params import content_digest, digest, is_named, version_0
from fedcore.participant.message import (
    encode,
    fold,
    is_gone,
    start_of,
    why_unusable,
    work_after,
)
from fedcore.participant.state import (
    Outcome,
    OutdatedError,
    ParticipantState,
    Pending,
    Sent,
    Trained,
    WrongModelError,
)
from fedcore.patch import apply_patch
from fedcore.payloads import Layout, dense_payload
from fedcore.protocol import (
    HISTORY,
    LARGEST,
    NOTHING_SETTLED,
    Abandoned,
    Ack,
    Answer,
    Held,
    ModelName,
    Plan,
    Proof,
    Pull,
    Push,
    Receipt,
    Reply,
    Settled,
    Verdict,
)
from fedcore.rng import Key
from fedcore.typing import Bytes, Seconds, State, Vector


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
        self.state = take_over(algorithm, state)

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
        state = self.state if self._proving else strip_proofs(self.state)
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
        check_disk(self.state, reply.receipt)
        state = reconcile(
            self.algorithm, self.state, reply, sent_once=self._sendings == 1
        )
        patch, layout = reply.patch, self.algorithm.spec.sizes
        try:
            self.state = install(state, reply, messages, layout)
        except WrongModelError as error:
            self._wrong_full += patch.kind == "full"
            if self._wrong_full >= 2:
                raise ProtocolError(
                    f"version {patch.version} arrived whole twice, and twice with "
                    f"another digest than the server's {patch.digest}"
                ) from error
            self.state = drop_model(state)
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
        self.state, self.unusable = end_task(
            self.algorithm, self.state, trained, base, key, self._tasks.get(base, 0)
        )
        return self._is_sending(before)

    def flush(self) -> bool:
        """Makes a message of all that the memory holds, before a planned leave."""
        before = self.state.seq
        self.state = send_memory(self.state, self._tasks) or self.state
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
        self.state = leave(self.state)

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
                self.state = settle(
                    self.algorithm,
                    self.state,
                    ack.answer,
                    ack.proof,
                    sent_once=self._sendings == 1,
                )
                self.state = note_complaint(self.state, ack)
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


# --------------------------------------- a task's update becomes the message in flight


def end_task(
    algorithm: Algorithm,
    state: ParticipantState,
    trained: Trained,
    base: ModelName,
    key: Key,
    task: Proof = 0,
) -> tuple[ParticipantState, str]:
    """Returns the state after a task.

    Its message is in flight, if one could be made. Otherwise the update is in the
    memory, or lost.

    Args:
        algorithm: of the run.
        state: from before the task's end.
        trained: what the task yielded.
        base: the model that it was trained on.
        key: for what the compressor draws.
        task: the server's proof that it gave this task.

    Returns:
        The state, and why the update was dropped, in words; empty if it was not.
    """
    trained = weigh(algorithm, trained, base)
    if not norms(trained.delta_D) <= LARGEST:  # a NaN would stay in the memory
        return _refuse(algorithm, state, trained.delta_D)
    if state.pending is not None or base.epoch != state.epoch:
        return _remember(algorithm, state, trained), ""
    density = assign(algorithm, state).density
    uplink = algorithm.uplink_of(density).at(lambda: _context(algorithm, state))
    message = encode(uplink, trained.delta_D, state.memory_D, key)
    if not message.is_usable:
        return _refuse(algorithm, state, trained.delta_D)
    packed = payloads.pack(message.payload)
    norms_ = float(message.update_norm), float(message.memory_norm)
    state = put_in_flight(state, packed, message.residual, trained, base, task, *norms_)
    state = state.noting(capped=state.ledger.capped + float(message.capped))
    kept = remove_part(algorithm, trained.kept, message.removed)
    return replace(state, kept=kept), ""


def weigh(algorithm: Algorithm, trained: Trained, base: ModelName) -> Trained:
    """Returns what a task yielded, its update multiplied as the aggregator says."""
    own, (_, version) = algorithm.config.client, base
    times = algorithm.coefficient(own, version, trained.steps, trained.samples)
    if times == 1.0:
        return trained
    return trained._replace(delta_D=trained.delta_D * np.float32(times))


def send_memory(
    state: ParticipantState, tasks: Mapping[ModelName, Proof]
) -> ParticipantState | None:
    """Puts all that the memory holds into flight, uncompressed.

    Args:
        state: of the client.
        tasks: those that it was given and has not used; it needs none of them.

    Returns:
        None where there is nothing to send, or where it cannot be sent now.
    """
    if state.pending or state.memory_D is None or state.held is None:
        return None
    if not state.memory_D.any():
        return None
    packed = payloads.pack(dense_payload(state.memory_D))
    base = ModelName(state.held.epoch, state.held.version)
    nothing_D = np.zeros(len(state.memory_D), np.float32)
    rest = Trained(nothing_D, samples=1)
    task = tasks.get(base, 0)
    return put_in_flight(
        state, packed, nothing_D, rest, base, task, norm(state.memory_D)
    )


def leave(state: ParticipantState) -> ParticipantState:
    """Returns the state of a client that has left; its memory is lost."""
    if state.memory_D is not None:
        state = state.noting(lost=state.ledger.lost + norm(state.memory_D))
        state = replace(state, memory_D=np.zeros_like(state.memory_D))
    return replace(state, left=True)


def put_in_flight(
    state: ParticipantState,
    packed: bytes,
    residual_D: Vector | None,
    trained: Trained,
    base: ModelName,
    task: Proof,
    update_norm: float,
    memory_norm: float = 0.0,
) -> ParticipantState:
    """Returns the state with a message in flight, and an empty memory."""
    push = Push(
        cid=state.cid,
        epoch=state.epoch,
        seq=state.seq + 1,
        base=base,
        payload=packed,
        digest=content_digest(packed),
        settled=state.settled,
        samples=trained.samples,
        steps=trained.steps,
        update_norm=update_norm,
        memory_norm=memory_norm,
        oldest=state.oldest,
        counts=trained.counts,
        loss=trained.loss,
        measured=trained.measured,
        metrics=trained.metrics,
        task=task,
    )
    memory_D = (
        None if state.memory_D is None else np.zeros(len(state.memory_D), np.float32)
    )
    return replace(
        state, seq=push.seq, pending=Pending(push, residual_D), memory_D=memory_D
    )


def _refuse(
    algorithm: Algorithm, state: ParticipantState, delta_D: Vector
) -> tuple[ParticipantState, str]:
    """Drops an update that cannot be sent."""
    why = why_unusable(algorithm.spec, delta_D)
    return state.noting(nonfinite=state.ledger.nonfinite + 1), why


def _remember(
    algorithm: Algorithm, state: ParticipantState, trained: Trained
) -> ParticipantState:
    """Keeps an update in the memory, since no message may be made now."""
    if state.memory_D is None or algorithm.config.uplink.holds == "changes":
        return state.noting(lost=state.ledger.lost + norm(trained.delta_D))
    memory_D = state.memory_D + trained.delta_D
    return replace(state, memory_D=memory_D, kept=trained.kept)


def _context(algorithm: Algorithm, state: ParticipantState) -> Context | None:
    """Returns what is known when a message is made; None without a model."""
    if state.held is None or state.public_D is None:
        return None
    version = state.held.version
    rate = algorithm.config.client.rate(version)
    return Context(version, state.public_D, state.recalled, rate)


# ----------------------------------------------- a verdict settles what a client keeps
#
# Accepted, the residual of the message stays in the memory; rejected, the message is
# folded back in as well; discarded, it is gone.


def settle(
    algorithm: Algorithm,
    state: ParticipantState,
    verdict: Verdict,
    proof: Proof,
    *,
    sent_once: bool,
) -> ParticipantState:
    """Returns the state after the verdict on the message in flight.

    Args:
        algorithm: of the run.
        state: with a message in flight.
        verdict: the server's decision on it.
        proof: that the server gave this verdict.
        sent_once: whether the message was sent once.
    """
    pending = state.pending
    assert pending is not None
    push, ledger = pending.push, state.ledger
    history, oldest, kept = list(state.history), state.oldest, state.kept
    uplink, client = algorithm.config.uplink, algorithm.config.client
    has_memory = state.memory_D is not None or client.overlaps
    returns = uplink.brings_back(verdict)
    if is_gone(uplink, verdict, has_memory=has_memory):
        kept = take_back(algorithm, kept, push.payload)
    if verdict is Verdict.ACCEPTED:
        history.append(Sent(push.seq, push.payload, in_model=True))
        oldest = None
        ledger = replace(ledger, accepted=ledger.accepted + 1)
    elif verdict.returns_mass:
        history.append(Sent(push.seq, push.payload, in_model=False))
        oldest = push.oldest or push.base
        lost = ledger.lost + (0.0 if has_memory else push.update_norm)
        ledger = replace(ledger, rejected=ledger.rejected + 1, lost=lost)
    elif not returns:
        ledger = replace(ledger, discarded=ledger.discarded + push.update_norm)
    back = push.payload if returns else None
    return replace(
        state,
        memory_D=fold_back(algorithm, state.memory_D, pending.residual_D, back),
        recalled=recall(algorithm, push.payload),
        kept=kept,
        pending=None,
        settled=Settled(push.seq, verdict, proof),
        history=limit_history(algorithm, state, history),
        oldest=oldest,
        work=work_after(verdict, state.work, sent_once=sent_once),
        ledger=ledger,
    )


def note_complaint(state: ParticipantState, ack: Ack) -> ParticipantState:
    """Returns the state that remembers why a message was malformed.

    Raises:
        ProtocolError: the message before was malformed for the same reason.
    """
    if ack.answer is not Verdict.REJECTED_MALFORMED:
        return replace(state, complaint="")
    if ack.reason and ack.reason == state.complaint:
        raise ProtocolError(f"the server cannot read these updates: {ack.reason}")
    return replace(state, complaint=ack.reason)


# ---- reconciles a client with the history of its server, which may have been restored


def check_disk(state: ParticipantState, receipt: Receipt | None) -> None:
    """Checks that the server knows no more of this client than its disk does.

    Raises:
        OutdatedError: the disk was rolled back.
    """
    if receipt is None:
        return
    pending = state.pending
    is_other = (
        pending is not None
        and receipt.seq == pending.push.seq
        and receipt.digest != pending.push.digest
    )
    if receipt.seq > state.seq or is_other:
        raise OutdatedError(
            f"the server knows message {receipt.seq} of this client, the state "
            f"directory ends at {state.seq}: it was restored from an old copy"
        )


def reconcile(
    algorithm: Algorithm, state: ParticipantState, reply: Reply, *, sent_once: bool
) -> ParticipantState:
    """Returns the state in the server's history, with the verdict of the reply.

    Args:
        algorithm: of the run.
        state: may belong to another history.
        reply: the server's answer to a pull.
        sent_once: whether the message in flight was sent once.
    """
    pending, receipt = state.pending, reply.receipt
    if pending and receipt and receipt.seq == pending.push.seq:
        state = settle(
            algorithm, state, receipt.verdict, receipt.proof, sent_once=sent_once
        )
    if reply.patch.epoch != state.epoch:
        state = change_history(algorithm, state, reply)
    return state


def change_history(
    algorithm: Algorithm, state: ParticipantState, reply: Reply
) -> ParticipantState:
    """Returns the state in another history; takes back what that does not hold."""
    memory_D, kept, history = state.memory_D, state.kept, list(state.history)
    recalled = state.recalled
    if state.pending is not None:
        push = state.pending.push
        recalled = recall(algorithm, push.payload)
        if memory_D is None:
            kept = take_back(algorithm, kept, push.payload)
        memory_D = fold_back(
            algorithm, memory_D, state.pending.residual_D, push.payload
        )
        history.append(Sent(push.seq, push.payload, in_model=False))
    for place, sent in enumerate(history):
        counted = sent.seq in reply.accepted
        if sent.in_model != counted:
            sign = -1.0 if counted else 1.0
            if memory_D is None:
                kept = take_back(algorithm, kept, sent.payload, sign)
            memory_D = fold_back(algorithm, memory_D, None, sent.payload, sign)
        history[place] = replace(sent, in_model=counted)
    receipt = reply.receipt
    kept = fork_state(
        algorithm.config.client, kept, has_local=bool(algorithm.model.local)
    )
    return replace(
        state,
        memory_D=memory_D,
        recalled=recalled,
        kept=kept,
        pending=None,
        history=limit_history(algorithm, state, history),
        epoch=reply.patch.epoch,
        abandoned=(*state.abandoned, Abandoned(state.epoch, reply.left))[-HISTORY:],
        settled=NOTHING_SETTLED
        if receipt is None
        else Settled(receipt.seq, receipt.verdict, receipt.proof),
        held=None,
        public_D=None,
    )


def strip_proofs(state: ParticipantState) -> ParticipantState:
    """Returns the state with its claims alone; a server seldom asks for proofs."""
    return replace(
        state,
        held=state.held and state.held._replace(proof=0),
        settled=state.settled._replace(proof=0),
        abandoned=tuple(Abandoned(left.epoch) for left in state.abandoned),
    )


# ---------- the public model on a client's disk, and how a patch leads to the next one


def install(
    state: ParticipantState,
    reply: Reply,
    messages: Sequence[Bytes] | None,
    layout: Layout,
) -> ParticipantState:
    """Returns the state with the server's model.

    Args:
        state: of a client in the server's history.
        reply: brings the patch.
        messages: the patch's payloads; None: they came inside the reply.
        layout: of the model.

    Raises:
        PayloadError: the patch begins at another version than the client's.
        WrongModelError: the model that it leads to is not the server's.
    """
    patch = reply.patch
    if patch.kind not in ("full", "none") and (
        state.held is None or state.held.version != patch.start
    ):
        raise PayloadError(
            f"a patch from version {patch.start} does not fit {state.held}"
        )
    if messages is None:
        messages = patch.messages()
    public_D = apply_patch(state.public_D, patch.kind, messages, layout)
    arrived = digest(public_D)
    if not is_named(arrived, patch.digest):
        raise WrongModelError(
            f"version {patch.version} has another digest than the server's"
        )
    proof = reply.proof
    if patch.kind == "none" and state.held is not None:
        proof = state.held.proof
    held = Held(patch.epoch, patch.version, arrived, proof)
    return replace(state, held=held, public_D=public_D, patch=patch.nbytes)


def drop_model(state: ParticipantState) -> ParticipantState:
    """Drops a model that is not the server's; its version stays known."""
    held = state.held
    return replace(state, held=held and held._replace(digest=""), public_D=None)


# ---- what a client keeps beside the model: error memory, its method's state, messages


def assign(algorithm: Algorithm, state: ParticipantState) -> Assignment:
    """Returns what the client's task is given.

    The work is that of the controllers times what is left of it after late updates.
    """
    controller, given = algorithm.controller, state.given
    if controller is not None:
        given = join(given, controller.assign(state.controlled))
    return given._replace(work=given.work * state.work)


def fold_back(
    algorithm: Algorithm,
    memory_D: Vector | None,
    residual_D: Vector | None,
    packed: Bytes | None,
    sign: float = 1.0,
) -> Vector | None:
    """Returns e + residual ± message; None where there is no memory."""
    if memory_D is None:
        return None
    message = None if packed is None else payloads.unpack(packed, algorithm.spec.sizes)
    return fold(memory_D, residual_D, message, sign)


def take_over(algorithm: Algorithm, state: ParticipantState) -> ParticipantState:
    """Returns the state for the client algorithm of a run, which may be another one.

    What the earlier one kept from task to task means nothing to it, and is dropped. The
    values of local tensors stay.
    """
    keeper, kept = algorithm.config.client.kind, state.kept
    if state.keeper not in ("", keeper):
        kept = without_method(kept, has_local=bool(algorithm.model.local))
    return replace(state, keeper=keeper, kept=kept)


def recall(algorithm: Algorithm, packed: Bytes) -> State:
    """Returns what the uplink's next message needs of one that was decided on."""
    needed_of = algorithm.uplink.recall
    if needed_of is None:
        return None
    return needed_of(payloads.unpack(packed, algorithm.spec.sizes))


def take_back(
    algorithm: Algorithm, kept: State, packed: Bytes, sign: float = 1.0
) -> State:
    """Returns what the client's method keeps, as if a message had not been sent.

    Args:
        algorithm: whose client algorithm it is.
        kept: what the method keeps now.
        packed: the message, which is gone for good.
        sign: -1 makes it as if the message had counted after all.
    """
    if not algorithm.config.client.counts_updates:
        return kept
    gone_D = payloads.decode(payloads.unpack(packed, algorithm.spec.sizes))
    return remove_part(algorithm, kept, np.float32(sign) * gone_D)


def remove_part(algorithm: Algorithm, kept: State, gone_D: Vector | None) -> State:
    """Returns what the client's method keeps, without a part of an update."""
    if gone_D is None:
        return kept
    has_local = bool(algorithm.model.local)
    return back(algorithm.config.client, kept, gone_D, has_local=has_local)


def limit_history(
    algorithm: Algorithm, state: ParticipantState, history: Sequence[Sent]
) -> tuple[Sent, ...]:
    """Returns the messages that may have to be taken back."""
    if state.memory_D is not None or algorithm.config.client.counts_updates:
        return newest(history, 4 * algorithm.spec.dim)
    return ()


def newest(history: Sequence[Sent], room: int) -> tuple[Sent, ...]:
    """Returns the newest H messages: at most ``room`` bytes, but one at least."""
    kept: list[Sent] = []
    for sent in reversed(history[-HISTORY:]):
        room -= len(sent.payload)
        if room < 0 and kept:
            break
        kept.append(sent)
    return tuple(reversed(kept))


# ------ steps that a client takes while its message travels, and when they may be used
#
# Where the steps of a task begin with what the client has kept
# (:attr:`fedcore.clients.ClientAlgorithmConfig.overlaps`), they may be taken before the
# message in flight was decided on and a new model has come. They are used only if
# nothing has changed that they depend on; otherwise they are taken again.


class Start(NamedTuple):
    """The inputs on which the steps of a client's next task depend."""

    kept: State
    """The very object that the participant's state holds."""
    seq: int
    """Of the message that the task will make."""
    work: float
    """The share of the local work."""
    samples: int | None
    """How many samples a controller wants; None: as the settings say."""


def start_ahead(algorithm: Algorithm, state: ParticipantState) -> Start | None:
    """Returns what the next task's steps begin with; None: they need its model."""
    if not algorithm.config.client.overlaps:
        return None
    initial_L = np.empty(0, np.float32) if algorithm.model.local else None
    if split_kept(state.kept, initial_L)[0] is None:
        return None
    given = assign(algorithm, state)
    return Start(state.kept, state.seq + 1, given.work, given.samples)


def may_use(algorithm: Algorithm, state: ParticipantState, start: Start) -> bool:
    """Returns whether steps from this start are those of the next task."""
    now = start_ahead(algorithm, state)
    return now is not None and now.kept is start.kept and now[1:] == start[1:]
