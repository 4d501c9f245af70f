"""Handwritten digits with a perceptron of 83,498 values, in plain NumPy.

As float32 it is a third of a megabyte: ten seconds at 256 kbit/s without any loss.
"""

from typing import Any

from benchmarks.numpy_perceptron import Perceptron
from fedcore.params import Tensors
from fedcore.partitions import dirichlet
from fedcore.workload import Client, Workload
from fedrun.data import digits

PERCEPTRON = Perceptron((64, 512, 96, 10))
ALPHA = 0.5  # label skew


def train_data(client: Client) -> Any:
    """Returns this client's rows."""
    x, y = digits("train")
    seed = int(client.args.get("seed", "0"))
    rows = dirichlet(y, clients=client.count, alpha=ALPHA, seed=seed)[client.index]
    return x[rows], y[rows]


def evaluate(params: Tensors, x: Any, y: Any) -> dict[str, float]:
    """Returns the share of digits that are known."""
    return {"accuracy": float((PERCEPTRON.classes(params, x) == y).mean())}


workload = Workload(
    initial=PERCEPTRON.initial,
    gradient=PERCEPTRON.gradient,
    evaluate=evaluate,
    train_data=train_data,
    test_data=lambda: digits("test"),
)
