"""The demo's user file: digits, where one client alone holds all the zeros."""

from torch import nn

from latecomer import TorchWorkload
from latecomer.data import digits
from latecomer.partitions import lone_class

LONE_CLASS = 0  # held by client 0, which is always late, and by nobody else


def model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train_data(client):
    x, y = digits("train")
    parts = lone_class(y, clients=client.count, label=LONE_CLASS)
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
