"""A verdict settles what a client keeps.

Accepted, the residual of the message stays in the memory; rejected, the message is
folded back in as well; discarded, it is gone.
"""

from dataclasses import replace

from fedcore.algorithm import Algorithm
from fedcore.errors import ProtocolError
from fedcore.participant import keeping
from fedcore.participant.message import is_gone, work_after
from fedcore.participant.state import ParticipantState, Sent
from fedcore.protocol import Ack, Proof, Settled, Verdict


def settled(
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
        kept = keeping.taken_back(algorithm, kept, push.payload)
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
        memory_D=keeping.folded(algorithm, state.memory_D, pending.residual_D, back),
        recalled=keeping.recalled(algorithm, push.payload),
        kept=kept,
        pending=None,
        settled=Settled(push.seq, verdict, proof),
        history=keeping.bounded(algorithm, state, history),
        oldest=oldest,
        work=work_after(verdict, state.work, sent_once=sent_once),
        ledger=ledger,
    )


def complained(state: ParticipantState, ack: Ack) -> ParticipantState:
    """Returns the state that remembers why a message was malformed.

    Raises:
        ProtocolError: the message before was malformed for the same reason.
    """
    if ack.answer is not Verdict.REJECTED_MALFORMED:
        return replace(state, complaint="")
    if ack.reason and ack.reason == state.complaint:
        raise ProtocolError(f"the server cannot read these updates: {ack.reason}")
    return replace(state, complaint=ack.reason)
