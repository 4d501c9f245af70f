"""The digits with a network of one hidden layer, in torch, dealt to clients by rows."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from benchmarks.claims.setup import CLASSES, HIDDEN, PIXELS, digits
from fedcore.samples import Subset
from fedcore.typing import Indices
from fedtorch import TorchWorkload

Scores = dict[str, torch.Tensor]


def accuracy(output: torch.Tensor, target: torch.Tensor) -> Scores:
    """Returns the share of images (B,) whose class has the highest score (B, C)."""
    return {"accuracy": (output.argmax(1) == target).float().mean()}


def perceptron(
    parts: Sequence[Indices], metrics: Any = accuracy, **more: Any
) -> TorchWorkload:
    """Returns the digits as a workload; client i trains on the rows of part i.

    Args:
        parts: the rows of each client.
        metrics: of the evaluator.
        more: further arguments of the workload.
    """
    x, y = digits("train")
    return TorchWorkload(
        model=lambda: nn.Sequential(
            nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
        ),
        loss=nn.CrossEntropyLoss(),
        metrics=metrics,
        train_data=lambda client: Subset(x, y, parts[client.index]),
        test_data=lambda: digits("test"),
        **more,
    )
