"""Handwritten digits at eight hospitals; only the late site has two of the classes."""

from typing import Any

import numpy as np

from benchmarks.hospitals.schedule import LATE
from benchmarks.numpy_perceptron import Perceptron
from fedcore.params import Tensors
from fedcore.partitions import dirichlet
from fedcore.workload import Client, Workload
from fedrun.data import digits

PERCEPTRON = Perceptron((64, 32, 10))
LATE_CLASSES = (3, 8)
ALPHA = 1.0  # label skew of the other classes over the other sites


def train_data(client: Client) -> Any:
    """Returns a site's rows.

    The late site has the rows of its own classes, and no others.
    """
    x, y = digits("train")
    own = np.isin(y, LATE_CLASSES)
    if client.index == LATE:
        return x[own], y[own]
    x, y = x[~own], y[~own]
    seed = int(client.args.get("seed", "0"))
    parts = dirichlet(y, clients=client.count - 1, alpha=ALPHA, seed=seed)
    rows = parts[client.index - (client.index > LATE)]
    return x[rows], y[rows]


def evaluate(params: Tensors, x: Any, y: Any) -> dict[str, float]:
    """Returns the accuracy, and the recall of the late site's classes."""
    right, own = PERCEPTRON.classes(params, x) == y, np.isin(y, LATE_CLASSES)
    return {"accuracy": float(right.mean()), "recall": float(right[own].mean())}


workload = Workload(
    initial=PERCEPTRON.initial,
    gradient=PERCEPTRON.gradient,
    evaluate=evaluate,
    train_data=train_data,
    test_data=lambda: digits("test"),
)
