"""The error memory, and the messages that can still come back to it."""

from collections.abc import Sequence

import numpy as np

from fedcore import payloads
from fedcore.arrays import norm
from fedcore.participant.state import Sent
from fedcore.payloads import Layout
from fedcore.protocol import HISTORY
from fedcore.typing import Bytes, Vector


def fold(
    memory_D: Vector | None,
    residual_D: Vector | None,
    packed: Bytes | None,
    layout: Layout,
    sign: float,
) -> Vector | None:
    """E + residual ± decode(packed); nothing where there is no memory."""
    if memory_D is None:
        return None
    folded_D = memory_D.copy() if residual_D is None else memory_D + residual_D
    if packed is not None:
        payloads.add(payloads.unpack(packed, layout), folded_D, sign)
    return folded_D


def newest(history: Sequence[Sent], room: int) -> tuple[Sent, ...]:
    """The newest H messages, and at most so many bytes of them, but one at least."""
    kept: list[Sent] = []
    for sent in reversed(history[-HISTORY:]):
        room -= len(sent.payload)
        if room < 0 and kept:
            break
        kept.append(sent)
    return tuple(reversed(kept))


def cap(memory_D: Vector, limit: float) -> tuple[Vector, float]:
    """The memory scaled down to a norm of ``limit``, and the norm that was removed.

    A limit of 0 comes from an empty round, which leaves the memory alone.
    """
    size = norm(memory_D)
    if limit == 0 or size <= limit:
        return memory_D, 0.0
    return memory_D * np.float32(limit / size), size - limit
