"""Small convolutional networks, in torch."""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.bytes.data import Share, fashion_mnist, shares, shoulder_smartwatch
from fedtorch import TorchWorkload


def images() -> nn.Module:
    """106,122 parameters for 28 x 28 pixels."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def motions() -> nn.Module:
    """23,847 parameters for 100 samples of 6 channels."""
    return nn.Sequential(
        nn.Conv1d(6, 32, 9, stride=2),
        nn.ReLU(),
        nn.Conv1d(32, 64, 9, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(8),
        nn.Flatten(),
        nn.Linear(64 * 8, 7),
    )


def accuracy(logits: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """The share of right answers."""
    return {"accuracy": (logits.argmax(1) == y).to(torch.float32).mean()}


def workload(model: Callable[[], nn.Module], share: Share) -> TorchWorkload:
    """A network, and the data that its clients hold."""
    return TorchWorkload(
        model=model,
        loss=nn.CrossEntropyLoss(),
        metrics=accuracy,
        train_data=shares(share),
    )


fashion = workload(images, fashion_mnist)
watch = workload(motions, shoulder_smartwatch)
