"""A network with dropout for the workers of a silo."""

from typing import Any

from torch import nn

from fedcore.workload import Client
from fedtorch import TorchWorkload
from tests.fedclient.silo import apps


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def train_data(client: Client) -> Any:
    return apps.X, apps.Y


workload = TorchWorkload(model=model, loss=nn.CrossEntropyLoss(), train_data=train_data)
