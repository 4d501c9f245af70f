"""The arithmetic of messages: from an update to its message, and after its verdict.

Pure arithmetic along the last axis: one call serves a device, whose update has the
shape (D,), and a stack of simulated clients, (N, D).
"""

from operator import add
from typing import NamedTuple

import numpy as np

from fedcore import payloads
from fedcore.arrays import like, norms, norms_of
from fedcore.compressors import Compressor, CompressorConfig, Keys
from fedcore.params import ParamSpec
from fedcore.payloads import Payload
from fedcore.protocol import LARGEST, Verdict
from fedcore.typing import Array, Vector


class Message(NamedTuple):
    """A message, or those of a stack, with one value of each field a row."""

    payload: Payload
    residual: Array | None
    """The error memory that is left if the message counts; None without a memory."""
    update_norm: Array
    """Of the update with the memory, which is what the message stands for."""
    memory_norm: Array
    """Of the residual; 0 without a memory."""
    capped: Array
    """The norm of what was removed from the memory."""
    removed: Array | None
    """What the compressor's limit removed; None: nothing from any memory."""

    @property
    def is_usable(self) -> Array:
        """Whether the server can add it up.

        Near the end of float32 a message may be infinite, and then its residual is.
        """
        return (self.update_norm <= LARGEST) & (self.memory_norm <= LARGEST)


def encode(
    uplink: Compressor,
    delta: Array,
    memory: Array | None,
    key: Keys,
) -> Message:
    """Makes the message of an update.

    Args:
        uplink: the compressor for this message.
        delta: Δ = W - w, shape (D,) or (N, D).
        memory: the error memory e, of the same shape; None where there is none.
        key: for what the compressor draws; of a stack, one for each row.
    """
    capped, removed = np.zeros(delta.shape[:-1]), None
    if memory is not None:
        whole, memory = memory, uplink.limit(memory, delta)
        if memory is not whole:
            removed = whole - memory
            capped = norms(removed)
    payload, residual = uplink.encode(delta, memory, key)
    size = norms(delta) if memory is None else norms_of(add, memory, delta)
    left = np.zeros(delta.shape[:-1]) if residual is None else norms(residual)
    return Message(payload, residual, size, left, capped, removed)


def start_of(uplink: CompressorConfig, public: Array, memory: Array | None) -> Array:
    """Returns the model at which a task's local steps begin.

    Args:
        uplink: of the recipe.
        public: W, shape (D,) or (N, D).
        memory: the error memory e, of the same shape; None where there is none.
    """
    if memory is None or not uplink.trains_on_own_view:
        return public
    return public - like(memory, public)


def why_unusable(spec: ParamSpec, delta_D: Vector) -> str:
    """Says why an update is not sent, though its message may be at fault."""
    tensor = spec.beyond(delta_D)
    if tensor is not None:
        return f"the update of tensor {tensor!r} is not finite; it is not sent"
    return f"the norm of the update is above {LARGEST:.3g}; it is not sent"


def fold(
    memory_D: Vector,
    residual_D: Vector | None,
    message: Payload | None,
    sign: float = 1,
) -> Vector:
    """Returns e + residual ± message, the memory after a message was settled.

    Args:
        memory_D: e, shape (D,); left as it is.
        residual_D: what the message left out; None: nothing is added for it.
        message: what comes back into the memory; None: it does not.
        sign: -1 takes the message out of the memory.
    """
    folded_D = memory_D.copy() if residual_D is None else memory_D + residual_D
    if message is not None:
        payloads.add(message, folded_D, sign)
    return folded_D


def is_gone(uplink: CompressorConfig, verdict: Verdict, *, has_memory: bool) -> bool:
    """Returns whether a message neither counts nor is sent again."""
    if verdict is Verdict.ACCEPTED:
        return False
    return not (has_memory and uplink.brings_back(verdict))


def work_after(verdict: Verdict, work: float, *, sent_once: bool) -> float:
    """Returns the share of the local work that the client's next task has.

    It is halved after an update that was too late, if that was sent once: one that had
    to be sent again may be late for that alone.
    """
    if verdict is Verdict.ACCEPTED:
        return 1.0
    if verdict is Verdict.REJECTED_STALE and sent_once:
        return work / 2
    return work
