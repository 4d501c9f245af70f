"""A client's side of the protocol, sans I/O.

Whoever drives a participant saves ``state`` after each call that changed it and
before anything is sent: each call is one transaction. A kill between two calls
then loses nothing and doubles nothing (docs/protocol.md).

An update is one message in flight, named by sequence number and digest. Only the
server's verdict settles the error memory: accepted, the residual stays; rejected,
the message is folded back in; discarded, it is gone.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import norm, norms
from fedcore.compressors import Context, ErrorFeedback, MemoryConfig
from fedcore.errors import LatecomerError, PayloadError, ProtocolError
from fedcore.params import content_digest, digest, is_named, version_0
from fedcore.participant.history import newest
from fedcore.participant.message import (
    comes_back,
    encode,
    fold,
    is_gone,
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
from fedcore.payloads import dense_payload
from fedcore.protocol import (
    HISTORY,
    LARGEST,
    NOTHING_SETTLED,
    Abandoned,
    Ack,
    Answer,
    Held,
    ModelName,
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
        self.state = state
        uplink = algorithm.config.uplink
        self.has_memory = isinstance(uplink, MemoryConfig)  # of what messages leave out
        self._sends_changes = uplink.sends_changes
        self._cap = uplink.cap if isinstance(uplink, ErrorFeedback) else None
        self._nonce: int | None = None
        self._proving = False  # the server wants to see proofs
        # A message that comes from the disk was sent before.
        self._sendings = 0 if state.pending is None else 1
        self._wrong_full = 0
        self.unusable = ""  # why the last update was not used, in words
        if self.has_memory and state.memory_D is None:
            self._change(memory_D=np.zeros(algorithm.spec.dim, np.float32))

    @property
    def _layout(self) -> tuple[int, ...]:
        return self.algorithm.spec.sizes

    def _change(self, **fields: object) -> None:
        self.state = replace(self.state, **fields)  # type: ignore[arg-type]

    # -------------------------------------------------------------------- pulls

    def derive(self, initial_D: Vector, origin: str) -> None:
        """Version 0 need not travel: here it is, if it has the digest ``origin``."""
        if self.state.held is not None:
            return
        public_D = version_0(self.algorithm.spec.extend(initial_D), origin)
        if public_D is not None:
            held = Held(self.state.epoch, 0, origin)
            self._change(held=held, public_D=public_D)

    def pull(self, nonce: int) -> Pull:
        """A request for the model; only the answer with this nonce counts."""
        self._nonce = nonce
        state = self.state if self._proving else _without_proofs(self.state)
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
        )

    def prove(self, nonce: int) -> bool:
        """The server wants proofs of what was claimed; the next pull shows them.

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
        self._check_disk(reply.receipt)
        before = self.state
        self._reconcile(reply)
        try:
            self._install(reply, messages)
        except WrongModelError:
            raise
        except LatecomerError:
            self.state = before
            raise
        return True

    def _check_disk(self, receipt: Receipt | None) -> None:
        state, pending = self.state, self.state.pending
        if receipt is None:
            return
        other = (
            pending
            and receipt.seq == pending.push.seq
            and (receipt.digest != pending.push.digest)
        )
        if receipt.seq > state.seq or other:
            raise OutdatedError(
                f"the server knows message {receipt.seq} of this client, the state "
                f"directory ends at {state.seq}: it was restored from an old copy"
            )

    def _reconcile(self, reply: Reply) -> None:
        pending, receipt = self.state.pending, reply.receipt
        if pending and receipt and receipt.seq == pending.push.seq:
            self._settle(receipt.verdict, receipt.proof)
        if reply.patch.epoch != self.state.epoch:
            self._change_history(reply)

    def _change_history(self, reply: Reply) -> None:
        """The server's history is another one: take back what it does not hold."""
        state, receipt = self.state, reply.receipt
        memory_D, history = state.memory_D, list(state.history)
        if state.pending is not None:
            push = state.pending.push
            memory_D = self._fold(memory_D, state.pending.residual_D, push.payload)
            history.append(Sent(push.seq, push.payload, in_model=False))
            if memory_D is None:
                self._take_back(push.payload)
        for place, sent in enumerate(history):
            counted = sent.seq in reply.accepted
            if sent.in_model and not counted:
                if memory_D is None:
                    self._take_back(sent.payload)
                memory_D = self._fold(memory_D, None, sent.payload)
            if counted and not sent.in_model:
                if memory_D is None:
                    self._take_back(sent.payload, sign=-1.0)
                memory_D = self._fold(memory_D, None, sent.payload, sign=-1.0)
            history[place] = replace(sent, in_model=counted)
        self._change(
            memory_D=memory_D,
            pending=None,
            history=self._bounded(history),
            epoch=reply.patch.epoch,
            abandoned=(*state.abandoned, Abandoned(state.epoch, reply.left))[-HISTORY:],
            settled=NOTHING_SETTLED
            if receipt is None
            else Settled(receipt.seq, receipt.verdict, receipt.proof),
            held=None,
            public_D=None,
        )

    def _install(self, reply: Reply, messages: Sequence[Bytes] | None) -> None:
        state, patch = self.state, reply.patch
        if patch.kind not in ("full", "none") and (
            state.held is None or state.held.version != patch.start
        ):
            raise PayloadError(
                f"a patch from version {patch.start} does not fit {state.held}"
            )
        if messages is None:
            messages = patch.messages()
        public_D = apply_patch(state.public_D, patch.kind, messages, self._layout)
        arrived = digest(public_D)
        if not is_named(arrived, patch.digest):
            self._drop_model()
            self._wrong_full += patch.kind == "full"
            if self._wrong_full >= 2:
                raise ProtocolError(
                    f"version {patch.version} arrived whole twice, and twice with "
                    f"another digest than the server's {patch.digest}"
                )
            raise WrongModelError(
                f"version {patch.version} has another digest than the server's"
            )
        self._wrong_full = 0
        proof = reply.proof
        if patch.kind == "none" and state.held is not None:
            proof = state.held.proof
        held = Held(patch.epoch, patch.version, arrived, proof)
        link = replace(self.state.link, patch=patch.nbytes)
        self._change(held=held, public_D=public_D, link=link)

    def _drop_model(self) -> None:
        """It is not the server's. Which version it was is still worth knowing."""
        held = self.state.held
        self._change(held=held and held._replace(digest=""), public_D=None)

    # ---------------------------------------------------------------- bandwidth

    def rest(self, at: Seconds, beside: int = 0) -> Seconds:
        """How long to send nothing, since the day's budget of bytes is used up.

        ``beside``: bytes that the next exchange takes beside its payload, about.
        """
        limits, link = self.algorithm.config.bandwidth, self.state.link
        pending = self.state.pending
        if limits is None:
            return 0.0
        nbytes = link.patch if pending is None else len(pending.push.payload)
        return limits.rest(link, nbytes + beside, at)

    def used(self, nbytes: int, at: Seconds) -> None:
        """So many bytes have passed, in either direction."""
        limits = self.algorithm.config.bandwidth
        if limits is not None and nbytes:
            self._change(link=limits.used(self.state.link, nbytes, at))

    def uploaded(self, took: Seconds, at: Seconds) -> None:
        """An upload took so long."""
        limits = self.algorithm.config.bandwidth
        if limits is not None:
            self._change(link=limits.uploaded(self.state.link, took, at))

    # ------------------------------------------------------------------ updates

    def finish(self, trained: Trained, base: ModelName, key: Key) -> bool:
        """Makes the message of a task; says whether there is one to send now.

        ``unusable`` says in words why the update was dropped, if it was.
        """
        state, self.unusable = self.state, ""
        if not norms(trained.delta_D) <= LARGEST:  # a NaN would stay in the memory
            return self._refuse(trained.delta_D)
        if state.pending is not None or base.epoch != state.epoch:
            self._remember(trained)
            return False
        uplink = self.algorithm.uplink.at(self._context)
        message = encode(uplink, trained.delta_D, state.memory_D, key, self._cap)
        if not message.is_usable:
            return self._refuse(trained.delta_D)
        packed = payloads.pack(message.payload)
        norms_ = float(message.update_norm), float(message.memory_norm)
        self._send(packed, message.residual, trained, base, *norms_)
        self._note(capped=state.ledger.capped + float(message.capped))
        self._change(kept=self._without(trained.kept, message.removed))
        return True

    def _refuse(self, delta_D: Vector) -> bool:
        """Drops an update that cannot be sent."""
        self.unusable = why_unusable(self.algorithm.spec, delta_D)
        self._note(nonfinite=self.state.ledger.nonfinite + 1)
        return False

    def _context(self) -> Context | None:
        """What is known when a message is made; nothing where the model was dropped."""
        state = self.state
        if state.held is None or state.public_D is None:
            return None
        last = state.history[-1].payload if state.history else None
        limited = self.algorithm.config.bandwidth is not None
        return Context(
            state.held.version,
            state.public_D,
            lambda: None if last is None else payloads.unpack(last, self._layout),
            state.link.share if limited else 1.0,
        )

    def push(self) -> Push:
        """The message in flight, to be sent, first or again."""
        assert self.state.pending is not None
        self._sendings += 1
        return self.state.pending.push

    def flush(self) -> bool:
        """Before a planned leave: sends all that the memory holds, uncompressed."""
        state = self.state
        if state.pending or state.memory_D is None or state.held is None:
            return False
        if not state.memory_D.any():
            return False
        packed = payloads.pack(dense_payload(state.memory_D))
        base = ModelName(state.held.epoch, state.held.version)
        nothing = np.zeros_like(state.memory_D)
        rest = Trained(nothing, samples=1)
        self._send(packed, nothing, rest, base, norm(state.memory_D))
        return True

    def leave(self) -> None:
        """The client is gone for good; what remains is booked as lost."""
        state = self.state
        if state.memory_D is not None:
            self._note(lost=state.ledger.lost + norm(state.memory_D))
            self._change(memory_D=np.zeros_like(state.memory_D))
        self._change(left=True)

    def _send(
        self,
        packed: bytes,
        residual_D: Vector | None,
        trained: Trained,
        base: ModelName,
        update_norm: float,
        memory_norm: float = 0.0,
    ) -> None:
        state = self.state
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
        )
        memory_D = None if state.memory_D is None else np.zeros_like(state.memory_D)
        self._sendings = 0
        self._change(seq=push.seq, pending=Pending(push, residual_D), memory_D=memory_D)

    def _remember(self, trained: Trained) -> None:
        """No message may be made now: the update stays in the memory."""
        memory_D = self.state.memory_D
        if memory_D is None or self._sends_changes:
            self._note(lost=self.state.ledger.lost + norm(trained.delta_D))
        else:
            self._change(memory_D=memory_D + trained.delta_D, kept=trained.kept)

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
                self._settle(ack.answer, ack.proof)
                self._judge_complaint(ack)
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

    def _settle(self, verdict: Verdict, proof: Proof) -> None:
        state, pending = self.state, self.state.pending
        assert pending is not None
        push, ledger = pending.push, state.ledger
        history, oldest = list(state.history), state.oldest
        returns = comes_back(verdict, sends_changes=self._sends_changes)
        has_memory = state.memory_D is not None
        if is_gone(verdict, has_memory=has_memory, sends_changes=self._sends_changes):
            self._take_back(push.payload)
        if verdict is Verdict.ACCEPTED:
            history.append(Sent(push.seq, push.payload, in_model=True))
            oldest = None
            ledger = replace(ledger, accepted=ledger.accepted + 1)
        elif verdict.returns_mass:
            history.append(Sent(push.seq, push.payload, in_model=False))
            oldest = push.oldest or push.base
            lost = 0.0 if has_memory else push.update_norm
            ledger = replace(
                ledger, rejected=ledger.rejected + 1, lost=ledger.lost + lost
            )
        elif not returns:
            ledger = replace(ledger, discarded=ledger.discarded + push.update_norm)
        self._change(
            memory_D=self._fold(
                state.memory_D, pending.residual_D, push.payload if returns else None
            ),
            pending=None,
            settled=Settled(push.seq, verdict, proof),
            history=self._bounded(history),
            oldest=oldest,
            work=work_after(verdict, state.work, sent_once=self._sendings == 1),
            ledger=ledger,
        )

    def _judge_complaint(self, ack: Ack) -> None:
        if ack.answer is not Verdict.REJECTED_MALFORMED:
            self._change(complaint="")
            return
        if ack.reason and ack.reason == self.state.complaint:
            raise ProtocolError(f"the server cannot read these updates: {ack.reason}")
        self._change(complaint=ack.reason)

    def _take_back(self, packed: Bytes, sign: float = 1.0) -> None:
        """Makes what the client keeps as if it had not sent this message.

        Args:
            packed: the message, which is gone for good.
            sign: -1 makes it as if the message had counted after all.
        """
        if self.algorithm.config.client.companions:
            gone_D = payloads.decode(payloads.unpack(packed, self._layout))
            gone_D = np.float32(sign) * gone_D
            self._change(kept=self._without(self.state.kept, gone_D))

    def _without(self, kept: State, gone_D: Vector | None) -> State:
        if gone_D is None:
            return kept
        return self.algorithm.config.client.take_back(kept, gone_D)

    def _fold(
        self,
        memory_D: Vector | None,
        residual_D: Vector | None,
        packed: Bytes | None,
        sign: float = 1.0,
    ) -> Vector | None:
        """E + residual ± message; nothing where there is no memory."""
        if memory_D is None:
            return None
        message = None if packed is None else payloads.unpack(packed, self._layout)
        return fold(memory_D, residual_D, message, sign)

    def _bounded(self, history: Sequence[Sent]) -> tuple[Sent, ...]:
        """Messages that may have to be taken back; a cycle needs one in any case."""
        companions = self.algorithm.config.client.companions
        if self.state.memory_D is not None or companions:
            return newest(history, 4 * self.algorithm.spec.dim)
        return tuple(history[-1:]) if self.algorithm.config.uplink.looks_back else ()

    def _note(self, **entries: float) -> None:
        self._change(ledger=replace(self.state.ledger, **entries))  # type: ignore[arg-type]


def _without_proofs(state: ParticipantState) -> ParticipantState:
    """What is claimed; it is seldom that anybody asks for more."""
    return replace(
        state,
        held=state.held and state.held._replace(proof=0),
        settled=state.settled._replace(proof=0),
        abandoned=tuple(Abandoned(left.epoch) for left in state.abandoned),
    )
