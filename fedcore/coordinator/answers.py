"""What is answered to a pull and to a push."""

from fedcore.coordinator.actions import SendAck, SendReply
from fedcore.coordinator.records import Leased
from fedcore.coordinator.state import ServerState
from fedcore.proofs import Authenticator
from fedcore.protocol import Ack, Answer, Pull, Push, Receipt, Reply, Task, TaskKind


def replied(
    pull: Pull,
    state: ServerState,
    proofs: Authenticator,
    task: Task | None,
    *,
    done: bool,
) -> SendReply:
    """The way from what the client holds to the newest version, and its task."""
    row, published = state.clients[pull.cid], state.published
    other_history = pull.epoch != state.epoch
    accepted = [seq for seq in row.accepted if seq >= pull.history_from]
    patch = published.patch(None if other_history else pull.held)
    is_held = patch.kind == "none"  # with its proof, from an earlier reply
    reply = Reply(
        nonce=pull.nonce,
        patch=patch,
        receipt=_receipt(pull, state, proofs),
        accepted=tuple(accepted) if other_history else (),
        task=task,
        done=done,
        proof=0 if is_held else proofs.version(state.epoch, state.version),
        left=proofs.left(pull.epoch) if other_history else 0,
    )
    return SendReply(cid=pull.cid, reply=reply)


def _receipt(pull: Pull, state: ServerState, proofs: Authenticator) -> Receipt | None:
    """That of the newest verdict, unless the client knows it."""
    receipt = state.clients[pull.cid].receipt
    if receipt is None or (
        pull.epoch == state.epoch and pull.settled.seq == receipt.seq
    ):
        return None
    proof = proofs.verdict(state.epoch, pull.cid, receipt.seq, receipt.verdict)
    return receipt._replace(proof=proof)


def lease_note(answer: SendReply, kind: TaskKind, state: ServerState) -> Leased:
    """What the journal keeps of a task that was given."""
    patch = answer.reply.patch
    return Leased(
        at=state.at,
        cid=answer.cid,
        version=state.version,
        task=kind,
        patch=patch.kind,
        nbytes=patch.nbytes,
    )


def acknowledged(push: Push, state: ServerState, proofs: Authenticator) -> SendAck:
    """The verdict on the last message that was decided, which is this one.

    Its proof is for the epoch that the client lives in; it may not have heard yet of a
    newer one.
    """
    row = state.clients[push.cid]
    receipt = row.receipt
    assert receipt is not None
    ack = Ack(
        seq=receipt.seq,
        digest=receipt.digest,
        answer=receipt.verdict,
        weight=receipt.weight,
        version=receipt.version,
        reason=row.reason,
        proof=proofs.verdict(push.epoch, push.cid, receipt.seq, receipt.verdict),
    )
    return SendAck(cid=push.cid, ack=ack)


def answered(push: Push, answer: Answer) -> SendAck:
    """An answer that decides nothing."""
    return SendAck(
        cid=push.cid, ack=Ack(seq=push.seq, digest=push.digest, answer=answer)
    )
