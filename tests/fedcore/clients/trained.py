"""A task by the gradients of a function."""

from fedcore.clients import (
    ClientAlgorithmConfig,
    Gradient,
    Trained,
    by_gradients,
    meet_model,
)
from fedcore.typing import Array, Counts, State


def trained(
    config: ClientAlgorithmConfig,
    start: Array,
    steps: int | Counts,
    gradient: Gradient,
    state: State = None,
) -> Trained:
    """What so many steps come to, for one client or a stack."""
    take, algorithm = by_gradients(gradient, steps), config.build()
    return meet_model(algorithm, start, algorithm.run(start, steps, take, state))
