"""Builds the answers to pulls and pushes, and the records of leases."""

from fedcore.coordinator.actions import SendAck, SendReply
from fedcore.coordinator.acts import why_waiting
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
    waits: bool = False,
) -> SendReply:
    """Answers a pull: the patch to the newest version, the receipt, and the task.

    Args:
        pull: what the client asked.
        state: of the server.
        proofs: makes the proofs of version and verdict.
        task: what the client shall do; None: nothing.
        done: whether the run has ended.
        waits: whether the client has waited for a task, and goes on waiting. Then no
            patch travels: it would get another one with the task.
    """
    row, published = state.clients[pull.cid], state.published
    other_history = pull.epoch != state.epoch
    accepted = [seq for seq in row.accepted if seq >= pull.history_from]
    find = published.nothing_new if waits else published.patch
    patch = find(None if other_history else pull.held)
    is_held = patch.kind == "none"  # then the client has the proof
    reply = Reply(
        nonce=pull.nonce,
        patch=patch,
        receipt=_receipt(pull, state, proofs),
        accepted=tuple(accepted) if other_history else (),
        task=task,
        done=done,
        proof=0 if is_held else proofs.version(state.epoch, state.version),
        left=proofs.left(pull.epoch) if other_history else 0,
        reason="" if task else why_waiting(state),
    )
    return SendReply(cid=pull.cid, reply=reply)


def _receipt(pull: Pull, state: ServerState, proofs: Authenticator) -> Receipt | None:
    """The receipt of the newest verdict; None if the client knows it."""
    receipt = state.clients[pull.cid].receipt
    if receipt is None or (
        pull.epoch == state.epoch and pull.settled.seq == receipt.seq
    ):
        return None
    proof = proofs.verdict(state.epoch, pull.cid, receipt.seq, receipt.verdict)
    return receipt._replace(proof=proof)


def lease_note(answer: SendReply, kind: TaskKind, state: ServerState) -> Leased:
    """The record of a task that was given with this answer."""
    patch, plan = answer.reply.patch, None
    if kind == "train":
        plan = state.learnt.plans.of(answer.cid, state.version)
    return Leased(
        at=state.at,
        cid=answer.cid,
        version=state.version,
        task=kind,
        patch=patch.kind,
        nbytes=patch.nbytes,
        planned=plan and plan.size,
        counts=plan and plan.counts,
    )


def acknowledged(push: Push, state: ServerState, proofs: Authenticator) -> SendAck:
    """Answers a push that is the last decided message with its verdict.

    The proof is made for the epoch that the client lives in, since it may not have
    heard of a newer one.
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


def answered(push: Push, answer: Answer, reason: str = "") -> SendAck:
    """Answers a push without a verdict."""
    ack = Ack(seq=push.seq, digest=push.digest, answer=answer, reason=reason)
    return SendAck(cid=push.cid, ack=ack)
