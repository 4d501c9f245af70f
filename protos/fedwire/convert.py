"""Converts pulls, pushes and their answers to those of the core, and back.

A peer's message is a claim: it becomes a message of the core, or a ``ProtocolError``
that says what is wrong with it.
"""

import math
import zlib
from collections.abc import Sequence
from itertools import zip_longest
from typing import get_args

import numpy as np

from fedcore.errors import ProtocolError
from fedcore.labels import MOST_CLASSES
from fedcore.measured import Device, Measured
from fedcore.protocol import (
    HISTORY,
    MOST_COUNTED,
    NOTHING_SETTLED,
    Abandoned,
    Ack,
    Answer,
    Epoch,
    Held,
    ModelName,
    Patch,
    PatchKind,
    Plan,
    Proof,
    Pull,
    Push,
    Receipt,
    Reply,
    Settled,
    Task,
    TaskKind,
    Verdict,
)
from fedcore.typing import Bytes, Counts, Seconds
from fedwire.v1 import federation_pb2 as pb

# -------- converts what messages of the wire are made of: names, answers, measurements
#
# A peer's message is a claim: each reader raises a ``ProtocolError`` that says what is
# wrong with it.


MOST_WAIT: Seconds = 86_400.0  # for which a peer may ask
_ANSWERS: dict[Verdict | Answer, int] = {
    answer: pb.Answer.Value(f"ANSWER_{answer.name}") for answer in (*Verdict, *Answer)
}
_MEANINGS = {code: meaning for meaning, code in _ANSWERS.items()}


def epoch_number(epoch: Epoch) -> int:
    """Returns the name of a history as a number, the form in which it travels."""
    return int(epoch, 16)


def epoch_name(number: int) -> Epoch:
    """Returns the name of a history, from the number that travels."""
    return f"{number:016x}"


def digest_bytes(digest: str) -> bytes:
    """Returns a digest as bytes, the form in which it travels."""
    return bytes.fromhex(digest)


def model_name(name: ModelName | None) -> pb.ModelName | None:
    """Returns a model's name as a message of the wire; None without one."""
    if name is None:
        return None
    return pb.ModelName(epoch=epoch_number(name.epoch), version=name.version)


def read_model_name(message: pb.ModelName) -> ModelName:
    """Returns a model's name, from a message of the wire."""
    return ModelName(epoch_name(message.epoch), message.version)


def answer_code(answer: Verdict | Answer) -> pb.Answer:
    """Returns the code of an answer on the wire."""
    return _ANSWERS[answer]  # type: ignore[return-value]


def read_answer(code: int) -> Verdict | Answer:
    """Returns the answer that a code stands for.

    Raises:
        ProtocolError: the code is unknown.
    """
    if code not in _MEANINGS:
        raise ProtocolError(f"unknown answer {code}; the peer may be newer")
    return _MEANINGS[code]


def read_verdict(code: int) -> Verdict:
    """Returns the verdict that a code stands for.

    Raises:
        ProtocolError: it stands for none.
    """
    answer = read_answer(code)
    if not isinstance(answer, Verdict):
        raise ProtocolError(f"expected a verdict, got {answer}")
    return answer


def read_settled(seq: int, code: int, proof: Proof = 0) -> Settled:
    """Returns a message's verdict as a client knows it; of message 0 there is none.

    Raises:
        ProtocolError: the code stands for no verdict.
    """
    return Settled(seq, read_verdict(code), proof) if seq else NOTHING_SETTLED


def encode_settled(settled: Settled) -> pb.Answer:
    """Returns the code of a verdict that a client knows, or that of none."""
    if settled.verdict is None:
        return pb.ANSWER_UNSPECIFIED
    return answer_code(settled.verdict)


def read_seconds(seconds: float) -> Seconds:
    """Returns a time for which a peer asks to wait, as far as anybody can wait."""
    return min(max(0.0, seconds), MOST_WAIT) if math.isfinite(seconds) else 0.0


def device_of(device: Device | None) -> pb.Device | None:
    """Returns the facts of a device as a message of the wire; None without any."""
    return None if device is None else pb.Device(**device._asdict())


def read_device(message: pb.Device) -> Device:
    """Returns the facts of a device; those that are not told are None."""
    facts = {
        name: getattr(message, name) if message.HasField(name) else None
        for name in Device._fields[1:]
    }
    return Device(message.model, **facts)


def encode_measured(measured: Measured | None) -> pb.Measured | None:
    """Returns what a training took as a message of the wire; None if not measured."""
    if measured is None:
        return None
    samples, seconds, joules, device = measured
    return pb.Measured(
        samples=samples, seconds=seconds, joules=joules, device=device_of(device)
    )


def read_measured(message: pb.Measured) -> Measured:
    """Returns what a training took; what is not told is None."""
    return Measured(
        message.samples,
        message.seconds if message.HasField("seconds") else None,
        message.joules if message.HasField("joules") else None,
        read_device(message.device) if message.HasField("device") else None,
    )


def plan_of(plan: Plan | None) -> pb.Plan | None:
    """Returns what a client announces as a message of the wire; None without a plan."""
    if plan is None:
        return None
    counts = [] if plan.counts is None else plan.counts.tolist()
    return pb.Plan(
        samples=plan.samples, counts=counts, has_counts=plan.counts is not None
    )


def read_plan(message: pb.Plan) -> Plan:
    """Returns what a client announces.

    Raises:
        ProtocolError: a number is out of range.
    """
    if not 1 <= message.samples <= MOST_COUNTED:
        raise ProtocolError(
            f"a plan of {message.samples} samples; expected 1 to {MOST_COUNTED}"
        )
    if len(message.counts) > MOST_CLASSES:
        raise ProtocolError(
            f"a plan with {len(message.counts)} label counts; expected up to "
            f"{MOST_CLASSES}"
        )
    counts = read_counts(message.counts) if message.has_counts else None
    return Plan(message.samples, counts)


def read_counts(sent: Sequence[int]) -> Counts:
    """Returns label counts (C,).

    Raises:
        ProtocolError: one of them is out of range.
    """
    if any(count > MOST_COUNTED for count in sent):
        raise ProtocolError("a label count is out of range")
    return np.array(sent, np.int64)


# ------------- converts pulls, pushes and their answers to those of the core, and back


SHORT = 8  # bytes of a model's digest that travel; its version is named beside it
INLINE = 1 << 16  # payloads and patches up to here travel in the first frame

_PATCHES: dict[PatchKind, int] = {
    kind: pb.PatchKind.Value(f"PATCH_KIND_{kind.upper()}")
    for kind in get_args(PatchKind)
}
_PATCH_KINDS = {code: kind for kind, code in _PATCHES.items()}
_TASKS: dict[TaskKind, int] = {
    kind: pb.TaskKind.Value(f"TASK_KIND_{kind.upper()}") for kind in get_args(TaskKind)
}
_TASK_KINDS = {code: kind for kind, code in _TASKS.items()}


# --------------------------------------------------------------------------- pulls


def pull_request(
    pull: Pull, key: bytes, partial: str = "", partial_bytes: int = 0
) -> pb.PullRequest:
    """Returns a pull as a message of the wire, with the key of its client."""
    held = pull.held
    proofs = [left.proof for left in pull.abandoned]
    return pb.PullRequest(
        key=key,
        epoch=epoch_number(pull.epoch),
        held=held.version if held else None,
        held_digest=digest_bytes(held.digest)[:SHORT] if held else b"",
        abandoned=[epoch_number(left.epoch) for left in pull.abandoned],
        settled=pull.settled.seq,
        settled_verdict=encode_settled(pull.settled),
        history_from=pull.history_from,
        partial=partial,
        partial_bytes=partial_bytes,
        held_proof=held.proof if held else 0,
        settled_proof=pull.settled.proof,
        abandoned_proofs=proofs if any(proofs) else (),
        device=device_of(pull.device),
        plan=plan_of(pull.plan),
    )


def read_pull(message: pb.PullRequest, cid: str, nonce: int) -> Pull:
    """Returns the pull of a client, from a message of the wire.

    Args:
        message: the pull.
        cid: the client's id.
        nonce: the number of the call, by which its answer is found.

    Raises:
        ProtocolError: it settles an update with an unknown verdict, or a count is out
            of range.
    """
    epoch, held = epoch_name(message.epoch), None
    if message.HasField("held"):
        digest = message.held_digest.hex()
        held = Held(epoch, message.held, digest, message.held_proof)
    return Pull(
        cid=cid,
        nonce=nonce,
        epoch=epoch,
        held=held,
        abandoned=_read_abandoned(message),
        settled=read_settled(
            message.settled, message.settled_verdict, message.settled_proof
        ),
        history_from=message.history_from,
        device=read_device(message.device) if message.HasField("device") else None,
        plan=read_plan(message.plan) if message.HasField("plan") else None,
    )


def _read_abandoned(message: pb.PullRequest) -> tuple[Abandoned, ...]:
    """Returns the histories that a client has left, with its proofs of them."""
    end = len(message.abandoned)
    newest = slice(max(0, end - HISTORY), end)
    epochs, proofs = message.abandoned[newest], message.abandoned_proofs[newest]
    pairs = zip_longest(epochs, proofs, fillvalue=0)
    return tuple(Abandoned(epoch_name(epoch), proof) for epoch, proof in pairs)


def pull_reply(reply: Reply, asked: Epoch) -> pb.PullReply:
    """Returns the answer to a pull of epoch ``asked``; chunks may follow it."""
    patch, receipt, task = reply.patch, reply.receipt, reply.task
    is_small = patch.nbytes <= INLINE
    return pb.PullReply(
        retry_after=reply.retry_after,
        kind=_PATCHES[patch.kind],  # type: ignore[arg-type]
        epoch=0 if patch.epoch == asked else epoch_number(patch.epoch),
        version=patch.version,
        digest=b"" if patch.kind == "none" else digest_bytes(patch.digest)[:SHORT],
        lengths=() if is_small and len(patch.lengths) == 1 else patch.lengths,
        patch=b"".join(patch.parts) if is_small else b"",
        receipt=None
        if receipt is None
        else pb.Receipt(
            seq=receipt.seq,
            digest=digest_bytes(receipt.digest),
            verdict=answer_code(receipt.verdict),
            weight=receipt.weight,
            version=receipt.version,
            proof=receipt.proof,
        ),
        accepted=reply.accepted,
        task=_TASKS[task.kind] if task else pb.TASK_KIND_NONE,  # type: ignore[arg-type]
        evaluate=task.evaluate if task else False,
        lease=task.lease if task else 0.0,
        done=reply.done,
        proof=reply.proof,
        left=reply.left,
        work=task.work if task and task.work != 1 else None,
        density=task.density if task and task.density != 1 else None,
        samples=task.samples or 0 if task else 0,
        reason=reply.reason,
        task_proof=task.proof if task else 0,
    )


def read_pull_reply(message: pb.PullReply, pull: Pull, body: Bytes = b"") -> Reply:
    """Returns the server's answer to a pull; ``body`` holds the bytes of its patch."""
    if message.kind not in _PATCH_KINDS:
        raise ProtocolError(f"unknown kind of patch {message.kind}")
    receipt, task = None, None
    if message.HasField("receipt"):
        sent = message.receipt
        receipt = Receipt(
            sent.seq,
            sent.digest.hex(),
            read_verdict(sent.verdict),
            sent.weight,
            sent.version,
            sent.proof,
        )
    if message.task != pb.TASK_KIND_NONE:
        if message.task not in _TASK_KINDS:
            raise ProtocolError(f"unknown kind of task {message.task}")
        task = Task(
            kind=_TASK_KINDS[message.task],
            evaluate=message.evaluate,
            lease=message.lease,
            proof=message.task_proof,
            work=_read_share(message, "work"),
            density=_read_share(message, "density"),
            samples=message.samples or None,
        )
    digest = message.digest.hex()
    if message.kind == pb.PATCH_KIND_NONE and pull.held is not None:
        digest = pull.held.digest
    start = -1 if message.kind == pb.PATCH_KIND_FULL else _version(pull.held)
    patch = Patch(
        kind=_PATCH_KINDS[message.kind],
        epoch=epoch_name(message.epoch) if message.epoch else pull.epoch,
        start=start,
        version=message.version,
        digest=digest,
        parts=(body,) if len(body) else (),
        lengths=tuple(message.lengths) or ((len(body),) if body else ()),
    )
    if patch.nbytes != len(body):
        raise ProtocolError(f"a patch of {patch.nbytes} bytes has {len(body)}")
    return Reply(
        nonce=pull.nonce,
        patch=patch,
        receipt=receipt,
        accepted=tuple(message.accepted),
        task=task,
        done=message.done,
        retry_after=read_seconds(message.retry_after),
        proof=message.proof,
        left=message.left,
        reason=message.reason,
    )


def _read_share(message: pb.PullReply, name: str) -> float:
    """Returns what a task is given; 1 if it is absent.

    Raises:
        ProtocolError: it is not above 0.
    """
    if not message.HasField(name):
        return 1.0
    share = float(getattr(message, name))
    if not 0 < share < math.inf:
        raise ProtocolError(f"a task of {name} {share}; expected a value above 0")
    return share


def _version(held: Held | None) -> int:
    return -1 if held is None else held.version


def patch_name(reply: pb.PullReply, request: pb.PullRequest) -> str:
    """Returns a name that two downloads share only if their bytes are the same."""
    epoch = reply.epoch or request.epoch
    start = -1 if reply.kind == pb.PATCH_KIND_FULL else request.held
    return f"{epoch:x}:{start}:{reply.version}:{reply.kind}:{sum(reply.lengths)}"


# -------------------------------------------------------------------------- pushes


def push_header(push: Push, key: bytes) -> pb.PushHeader:
    """Returns the header of a push, with the client's key; chunks may follow."""
    is_small = len(push.payload) <= INLINE
    return pb.PushHeader(
        key=key,
        epoch=epoch_number(push.epoch),
        seq=push.seq,
        base=push.base.version,
        settled=push.settled.seq,
        settled_verdict=encode_settled(push.settled),
        samples=push.samples,
        steps=push.steps,
        update_norm=push.update_norm,
        memory_norm=push.memory_norm,
        oldest=model_name(push.oldest),
        counts=[] if push.counts is None else push.counts.tolist(),
        has_counts=push.counts is not None,
        loss=push.loss,
        payload=bytes(push.payload) if is_small else b"",
        crc32=zlib.crc32(push.payload) if is_small else 0,
        size=0 if is_small else len(push.payload),
        digest=b"" if is_small else digest_bytes(push.digest),
        measured=encode_measured(push.measured),
        metrics=push.metrics,
        task=push.task,
    )


def read_push(message: pb.PushHeader, cid: str, payload: Bytes, digest: str) -> Push:
    """Returns the push of a client, from its header and payload.

    Args:
        message: the header.
        cid: the client's id.
        payload: all of it.
        digest: of the payload.

    Raises:
        ProtocolError: a count is out of range.
    """
    if message.samples > MOST_COUNTED:
        raise ProtocolError(f"an update of {message.samples} samples is out of range")
    counts = read_counts(message.counts) if message.has_counts else None
    return Push(
        cid=cid,
        epoch=epoch_name(message.epoch),
        seq=message.seq,
        base=ModelName(epoch_name(message.epoch), message.base),
        payload=payload,
        digest=digest,
        settled=read_settled(message.settled, message.settled_verdict),
        samples=message.samples,
        steps=message.steps,
        update_norm=message.update_norm,
        memory_norm=message.memory_norm,
        oldest=read_model_name(message.oldest) if message.HasField("oldest") else None,
        counts=counts,
        loss=message.loss if message.HasField("loss") else None,
        measured=read_measured(message.measured)
        if message.HasField("measured")
        else None,
        metrics=dict(message.metrics) or None,
        task=message.task,
    )


def push_reply(ack: Ack) -> pb.PushReply:
    """Returns the answer to a push as a message of the wire."""
    return pb.PushReply(
        answer=answer_code(ack.answer),
        weight=None if ack.weight == 1 else ack.weight,
        version=ack.version,
        reason=ack.reason,
        retry_after=ack.retry_after,
        proof=ack.proof,
    )


def read_push_reply(message: pb.PushReply, push: Push) -> Ack:
    """Returns the server's answer to a push, from a message of the wire."""
    return Ack(
        seq=push.seq,
        digest=push.digest,
        answer=read_answer(message.answer),
        weight=message.weight if message.HasField("weight") else 1.0,
        version=message.version,
        reason=message.reason,
        retry_after=read_seconds(message.retry_after),
        proof=message.proof,
    )
