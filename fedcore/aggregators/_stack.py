"""The frame of the robust aggregators, which see each member of a buffer once."""

import numpy as np

from fedcore.aggregators.base import Contribution
from fedcore.payloads import decode
from fedcore.typing import Vector

Stack = dict[str, tuple[Vector, int]]
"""By member: the mean of λ·q over its updates, shape (D,), and how many they are."""


def empty(dim: int) -> Stack:
    """Returns the empty buffer."""
    return {}


def keep(stack: Stack, update: Contribution) -> Stack:
    """Adds λ·q of an update. A robust rule does not weigh by samples."""
    value_D = decode(update.payload) * np.float32(update.weight)
    member, count = update.member or update.client or f"#{len(stack)}", 1
    if member in stack:
        mean_D, count = stack[member]
        count += 1
        value_D = mean_D + (value_D - mean_D) / np.float32(count)
    stack[member] = value_D, count
    return stack


def stack_values(stack: Stack) -> Vector:
    """Returns what the members contribute, shape (N, D)."""
    return np.stack([value_D for value_D, _ in stack.values()])
