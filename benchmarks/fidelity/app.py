"""Handwritten digits, with the classes divided unevenly."""

from typing import Any

from torch import nn

from fedcore.partitions import dirichlet
from fedcore.workload import Client
from fedrun.data import digits
from fedtorch import TorchWorkload


def model() -> nn.Module:
    """A small perceptron."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train_data(client: Client) -> tuple[Any, Any]:
    """This client's rows."""
    x, y = digits("train")
    rows = dirichlet(y, clients=client.count, alpha=0.5, seed=0)[client.index]
    return x[rows], y[rows]


def metrics(logits: Any, y: Any) -> dict[str, Any]:
    """The share of digits that are known."""
    return {"accuracy": (logits.argmax(1) == y).float().mean()}


workload = TorchWorkload(
    model=model,
    loss=nn.CrossEntropyLoss(),
    metrics=metrics,
    train_data=train_data,
    test_data=lambda: digits("test"),
)
