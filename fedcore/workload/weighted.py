"""Gradients of samples that have weights, from a model that gives means alone."""

from typing import Any

import numpy as np

from fedcore.errors import ConfigError
from fedcore.model import FlatModel, Weighted, WeightedGradient
from fedcore.samples import take_rows
from fedcore.typing import Vector


def one_sample_at_a_time(model: FlatModel) -> WeightedGradient:
    """Returns a function that asks for the gradient of each sample by itself.

    A batch costs as many gradients as it has samples, and the norms are exact.

    Args:
        model: computes the gradients.

    Raises:
        ConfigError: the model has batch statistics, so that a sample's gradient depends
            on the samples beside it.
    """
    if model.spec.in_training is not None:
        raise ConfigError(
            "algorithm.client: priority gradient_norm computes one sample at a time, "
            "and this model has batch statistics; use priority: estimate, or "
            "buffers: frozen"
        )

    def gradient(w_D: Vector, x: Any, y: Any, weights_B: Vector) -> Weighted:
        count = len(weights_B)
        sum_D, loss, norms_B = np.zeros(len(w_D)), 0.0, np.empty(count, np.float32)
        for place, weight in enumerate((weights_B / count).tolist()):
            row_1 = np.array([place])
            own, g_D = model.gradient(w_D, take_rows(x, row_1), take_rows(y, row_1))
            loss += weight * own
            sum_D += weight * g_D
            norms_B[place] = np.linalg.norm(g_D)
        return Weighted(loss, sum_D.astype(np.float32), norms_B)

    return gradient
