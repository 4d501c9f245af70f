"""What a client keeps beside the model: error memory, its method's state, messages."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.clients import take_back as back
from fedcore.clients import without_method
from fedcore.controllers import Assignment, join
from fedcore.participant.message import fold
from fedcore.participant.state import ParticipantState, Sent
from fedcore.protocol import HISTORY
from fedcore.typing import Bytes, State, Vector


def assigned(algorithm: Algorithm, state: ParticipantState) -> Assignment:
    """Returns what the client's task is given.

    The work is that of the controllers times what is left of it after late updates.
    """
    controller, given = algorithm.controller, state.given
    if controller is not None:
        given = join(given, controller.assign(state.controlled))
    return given._replace(work=given.work * state.work)


def folded(
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


def taken_over(algorithm: Algorithm, state: ParticipantState) -> ParticipantState:
    """Returns the state for the client algorithm of a run, which may be another one.

    What the earlier one kept from task to task means nothing to it, and is dropped. The
    values of local tensors stay.
    """
    keeper, kept = algorithm.config.client.kind, state.kept
    if state.keeper not in ("", keeper):
        kept = without_method(kept, has_local=bool(algorithm.model.local))
    return replace(state, keeper=keeper, kept=kept)


def recalled(algorithm: Algorithm, packed: Bytes) -> State:
    """Returns what the uplink's next message needs of one that was decided on."""
    recall = algorithm.uplink.recall
    if recall is None:
        return None
    return recall(payloads.unpack(packed, algorithm.spec.sizes))


def taken_back(
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
    return without(algorithm, kept, np.float32(sign) * gone_D)


def without(algorithm: Algorithm, kept: State, gone_D: Vector | None) -> State:
    """Returns what the client's method keeps, without a part of an update."""
    if gone_D is None:
        return kept
    has_local = bool(algorithm.model.local)
    return back(algorithm.config.client, kept, gone_D, has_local=has_local)


def bounded(
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
