"""Small modules, and workloads of them."""

from typing import Any

import torch
from torch import nn

from fedtorch import TorchWorkload

X = torch.linspace(-1, 1, 40).reshape(10, 4)
Y = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])


def small() -> nn.Module:
    """Two layers."""
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def with_dropout() -> nn.Module:
    """Two layers with dropout between them."""
    return nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Linear(50, 3))


def metrics(logits: Any, y: Any) -> dict[str, Any]:
    """The share of right answers."""
    return {"accuracy": (logits.argmax(1) == y).float().mean()}


def workload(model: Any = small, **given: Any) -> TorchWorkload:
    """A classifier of three classes."""
    settings: dict[str, Any] = {
        "loss": nn.CrossEntropyLoss(),
        "metrics": metrics,
        "train_data": lambda client: (X, Y),
    }
    return TorchWorkload(model=model, **(settings | given))
