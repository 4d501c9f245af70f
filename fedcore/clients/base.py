"""The contract of client algorithms: what a client does with one task.

``plan`` says which samples each step uses, from the key alone; ``run`` is plain
arithmetic along the last axis with a gradient function that it is given, so the
same lines train one client ``(D,)`` or a stack of them ``(N, D)``.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np

from fedcore.config import Method, OneOf
from fedcore.rng import Key
from fedcore.typing import Array, Indices, State

Plan = list[Indices]  # the rows of the samples of each step
# (w_D, step) -> (loss, g_D): the mean loss over the step's samples, and its gradient,
# in an array that the caller may write into until the next call.
Gradient = Callable[[Array, int], tuple[Array, Array]]


class Trained(NamedTuple):
    """What a task made of the model."""

    w_D: Array
    loss: Array  # mean over the steps
    state: State


class ClientAlgorithm(NamedTuple):
    """Local training. ``run`` leaves its inputs untouched."""

    init: Callable[[int], State]  # what the client keeps from task to task
    plan: Callable[[int, Key, float], Plan]  # (samples, key, share of the work)
    # (w_D, steps, gradient, state)
    run: Callable[[Array, int, Gradient, State], Trained]


class ClientAlgorithmConfig(Method):
    """Settings of a client algorithm."""

    role: ClassVar[str] = "client algorithm"

    @abstractmethod
    def step_count(self, samples: int, work: float = 1.0) -> int:
        """How many steps a client with so many samples takes; ``work`` is a share."""

    def at(self, version: int) -> Self:
        """The settings for a task on this version of the model."""
        return self

    @abstractmethod
    def build(self) -> ClientAlgorithm:
        """The algorithm."""


AnyClientAlgorithm = Annotated[ClientAlgorithmConfig, OneOf()]


def shuffled_batches(samples: int, batch: int, steps: int, key: Key) -> Plan:
    """The rows of ``steps`` batches, from one shuffle of all samples after the other.

    A pass ends with what is left over, so every sample is used equally often.
    """
    rng, plan = key.generator(), Plan()
    size = min(batch, samples)
    while len(plan) < steps:
        order = rng.permutation(samples)
        plan += [order[at : at + size] for at in range(0, samples, size)]
    return plan[:steps]


def mean_loss(losses: Sequence[Array]) -> Array:
    """The mean over the steps; NaN if there were none."""
    return sum(losses[1:], losses[0]) / len(losses) if losses else np.float32("nan")
