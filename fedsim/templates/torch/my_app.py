"""Handwritten digits with a small PyTorch network."""

from torch import nn

from latecomer import TorchWorkload
from latecomer.data import digits
from latecomer.partitions import dirichlet


def model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train_data(client):
    x, y = digits("train")
    parts = dirichlet(y, clients=client.count, alpha=0.3, seed=0)
    rows = parts[client.index]
    return x[rows], y[rows]


def metrics(logits, y):
    return {"accuracy": (logits.argmax(1) == y).float().mean()}


workload = TorchWorkload(
    model=model,
    loss=nn.CrossEntropyLoss(),
    metrics=metrics,
    train_data=train_data,
    test_data=lambda: digits("test"),
)
