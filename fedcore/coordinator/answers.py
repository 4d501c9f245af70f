"""What is answered to a pull and to a push."""

from fedcore.coordinator.actions import SendAck, SendReply
from fedcore.coordinator.records import Leased
from fedcore.coordinator.state import ServerState
from fedcore.protocol import Ack, Answer, Pull, Push, Reply, Task, TaskKind


def replied(
    pull: Pull, state: ServerState, task: Task | None, *, done: bool
) -> SendReply:
    """The way from what the client holds to the newest version, and its task."""
    row, published = state.clients[pull.cid], state.published
    other_history = pull.epoch != state.epoch
    accepted = [seq for seq in row.accepted if seq >= pull.history_from]
    is_known = not other_history and pull.settled.seq == row.seq
    reply = Reply(
        nonce=pull.nonce,
        patch=published.patch(None if other_history else pull.held),
        receipt=None if is_known else row.receipt,
        accepted=tuple(accepted) if other_history else (),
        task=task,
        done=done,
    )
    return SendReply(cid=pull.cid, reply=reply)


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


def acknowledged(cid: str, state: ServerState) -> SendAck:
    """The verdict on the last message that was decided."""
    row = state.clients[cid]
    receipt = row.receipt
    assert receipt is not None
    ack = Ack(
        seq=receipt.seq,
        digest=receipt.digest,
        answer=receipt.verdict,
        weight=receipt.weight,
        version=receipt.version,
        reason=row.reason,
    )
    return SendAck(cid=cid, ack=ack)


def answered(push: Push, answer: Answer) -> SendAck:
    """An answer that decides nothing."""
    return SendAck(
        cid=push.cid, ack=Ack(seq=push.seq, digest=push.digest, answer=answer)
    )
