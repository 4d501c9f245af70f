"""The frame of the robust aggregators, which keep the dampened updates."""

import numpy as np

from fedcore.aggregators.base import Contribution
from fedcore.payloads import decode
from fedcore.typing import Vector

Stack = tuple[Vector, ...]


def empty(dim: int) -> Stack:
    """Returns the empty buffer."""
    return ()


def keep(stack: Stack, update: Contribution) -> Stack:
    """Adds λ·q of an update. A robust rule does not weigh by samples."""
    return (*stack, decode(update.payload) * np.float32(update.weight))
