"""A small network with batch normalisation; clients' images differ in brightness."""

from typing import Any

import numpy as np
import torch
from torch import nn

from fedtorch import TorchWorkload

RNG = np.random.default_rng(0)
X = RNG.normal(1.5, 2, (160, 1, 6, 6)).astype(np.float32)
Y = RNG.integers(0, 4, 160)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 4),
    )


def part(client: Any) -> tuple[Any, Any]:
    rows = slice(client.index, None, client.count)
    return X[rows] * (1 + client.index), Y[rows]


def accuracy(output: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
    return {"accuracy": float((output.argmax(1) == target).float().mean())}


def with_buffers(**options: Any) -> TorchWorkload:
    return TorchWorkload(
        model=network,
        loss=nn.CrossEntropyLoss(),
        metrics=accuracy,
        train_data=part,
        valid_data=part,
        test_data=lambda: (X, Y),
        **options,
    )


average = with_buffers(buffers="average")
fed_bn = with_buffers(local=["1.*"])
