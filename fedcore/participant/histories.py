"""Reconciles a client with the history of its server, which may have been restored."""

from dataclasses import replace

from fedcore.algorithm import Algorithm
from fedcore.clients import fork_state
from fedcore.participant import keeping, verdicts
from fedcore.participant.state import OutdatedError, ParticipantState, Sent
from fedcore.protocol import (
    HISTORY,
    NOTHING_SETTLED,
    Abandoned,
    Receipt,
    Reply,
    Settled,
)


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


def reconciled(
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
        state = verdicts.settled(
            algorithm, state, receipt.verdict, receipt.proof, sent_once=sent_once
        )
    if reply.patch.epoch != state.epoch:
        state = changed(algorithm, state, reply)
    return state


def changed(
    algorithm: Algorithm, state: ParticipantState, reply: Reply
) -> ParticipantState:
    """Returns the state in another history; takes back what that does not hold."""
    memory_D, kept, history = state.memory_D, state.kept, list(state.history)
    recalled = state.recalled
    if state.pending is not None:
        push = state.pending.push
        recalled = keeping.recalled(algorithm, push.payload)
        if memory_D is None:
            kept = keeping.taken_back(algorithm, kept, push.payload)
        memory_D = keeping.folded(
            algorithm, memory_D, state.pending.residual_D, push.payload
        )
        history.append(Sent(push.seq, push.payload, in_model=False))
    for place, sent in enumerate(history):
        counted = sent.seq in reply.accepted
        if sent.in_model != counted:
            sign = -1.0 if counted else 1.0
            if memory_D is None:
                kept = keeping.taken_back(algorithm, kept, sent.payload, sign)
            memory_D = keeping.folded(algorithm, memory_D, None, sent.payload, sign)
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
        history=keeping.bounded(algorithm, state, history),
        epoch=reply.patch.epoch,
        abandoned=(*state.abandoned, Abandoned(state.epoch, reply.left))[-HISTORY:],
        settled=NOTHING_SETTLED
        if receipt is None
        else Settled(receipt.seq, receipt.verdict, receipt.proof),
        held=None,
        public_D=None,
    )


def without_proofs(state: ParticipantState) -> ParticipantState:
    """Returns the state with its claims alone; a server seldom asks for proofs."""
    return replace(
        state,
        held=state.held and state.held._replace(proof=0),
        settled=state.settled._replace(proof=0),
        abandoned=tuple(Abandoned(left.epoch) for left in state.abandoned),
    )
