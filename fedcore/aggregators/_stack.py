"""What the robust aggregators share: they keep the buffer's updates, dampened."""

import numpy as np

from fedcore.aggregators.base import Contribution
from fedcore.payloads import decode
from fedcore.typing import Vector

Stack = tuple[Vector, ...]


def empty(dim: int) -> Stack:
    """No updates."""
    return ()


def keep(stack: Stack, update: Contribution) -> Stack:
    """λ·q of one more update; samples do not count in a robust rule."""
    return (*stack, decode(update.payload) * np.float32(update.weight))
