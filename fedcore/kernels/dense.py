"""Small dense networks: all steps of gradient descent of a client in one loop."""

from typing import Any, NamedTuple

import numpy as np

from fedcore.kernels.library import compiled
from fedcore.typing import Indices

available = hasattr(compiled, "descend")
"""Whether there is such a loop. It has no twin: without it, gradients are asked for."""
MOST_LAYERS = 32


class Dense(NamedTuple):
    """Linear layers with ReLU between them, under the mean cross-entropy."""

    sizes: list[int]  # inputs, then the outputs of each layer
    places: list[tuple[int, int]]
    """Of each layer: where its weights (outputs, inputs) and its biases lie in the flat
    vector; -1: it has no biases."""


class Batched(NamedTuple):
    """Samples, and which of them each step of each client uses."""

    x: Any  # (n, inputs) float32
    y: Any  # (n,) int64
    rows_NSB: Indices
    sizes_NS: Indices  # of each batch; 0 after a client's last one


def descend(
    network: Dense,
    rates: tuple[float, float, float, float],
    samples: Batched,
    start_ND: Any,
    velocity_ND: Any,
    out_ND: Any,
) -> Any:
    """Takes all steps of N clients; their mean losses (N,), or None.

    v = momentum v + g + weight_decay w + pull (w - start), w = w - lr v. The result of
    a client does not depend on the others. None: a target is not one of the classes.

    Args:
        network: what is trained.
        rates: lr, momentum, weight_decay and pull.
        samples: of all of them.
        start_ND: float32, or (1, D): one model for all.
        velocity_ND: what is kept of v from task to task, changed in place, or None.
        out_ND: where Δ = start - w goes.
    """
    assert compiled is not None
    losses_N = np.empty(len(out_ND), np.float64)
    fine: bool = compiled.descend(
        np.array(network.sizes, np.int64),
        np.array(network.places, np.int64),
        rates,
        samples.x,
        samples.y,
        np.ascontiguousarray(samples.rows_NSB, np.int64),
        np.ascontiguousarray(samples.sizes_NS, np.int64),
        start_ND,
        velocity_ND,
        out_ND,
        losses_N,
    )
    return losses_N if fine else None
