"""A task's update becomes the message in flight."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import norm, norms
from fedcore.compressors import Context
from fedcore.params import content_digest
from fedcore.participant import keeping
from fedcore.participant.message import encode, why_unusable
from fedcore.participant.state import ParticipantState, Pending, Trained
from fedcore.payloads import dense_payload
from fedcore.protocol import LARGEST, ModelName, Proof, Push
from fedcore.rng import Key
from fedcore.typing import Vector


def finished(
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
    if not norms(trained.delta_D) <= LARGEST:  # a NaN would stay in the memory
        return _refused(algorithm, state, trained.delta_D)
    if state.pending is not None or base.epoch != state.epoch:
        return _remembered(algorithm, state, trained), ""
    density = keeping.assigned(algorithm, state).density
    uplink = algorithm.uplink_of(density).at(lambda: _context(algorithm, state))
    message = encode(uplink, trained.delta_D, state.memory_D, key)
    if not message.is_usable:
        return _refused(algorithm, state, trained.delta_D)
    packed = payloads.pack(message.payload)
    norms_ = float(message.update_norm), float(message.memory_norm)
    state = sent(state, packed, message.residual, trained, base, task, *norms_)
    state = state.noting(capped=state.ledger.capped + float(message.capped))
    kept = keeping.without(algorithm, trained.kept, message.removed)
    return replace(state, kept=kept), ""


def farewell(
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
    return sent(state, packed, nothing_D, rest, base, task, norm(state.memory_D))


def gone(state: ParticipantState) -> ParticipantState:
    """Returns the state of a client that has left; its memory is lost."""
    if state.memory_D is not None:
        state = state.noting(lost=state.ledger.lost + norm(state.memory_D))
        state = replace(state, memory_D=np.zeros_like(state.memory_D))
    return replace(state, left=True)


def sent(
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


def _refused(
    algorithm: Algorithm, state: ParticipantState, delta_D: Vector
) -> tuple[ParticipantState, str]:
    """Drops an update that cannot be sent."""
    why = why_unusable(algorithm.spec, delta_D)
    return state.noting(nonfinite=state.ledger.nonfinite + 1), why


def _remembered(
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
