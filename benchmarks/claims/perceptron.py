"""The digits with a network of one hidden layer, in torch, dealt to clients by rows."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import latecomer
from benchmarks.claims.setup import CLASSES, HIDDEN, PIXELS, digits
from fedcore.samples import Subset
from fedcore.typing import Indices, Seconds, Vector
from fedtorch import TorchWorkload

Scores = dict[str, torch.Tensor]
Samples = tuple[Vector, Indices]


def accuracy(output: torch.Tensor, target: torch.Tensor) -> Scores:
    """Returns the share of images (B,) whose class has the highest score (B, C)."""
    return {"accuracy": (output.argmax(1) == target).float().mean()}


def perceptron(
    parts: Sequence[Indices],
    metrics: Any = accuracy,
    train: Samples | None = None,
    test: Samples | None = None,
    **more: Any,
) -> TorchWorkload:
    """Returns the digits as a workload; client i trains on the rows of part i.

    Args:
        parts: the rows of each client.
        metrics: of the evaluator.
        train: the samples that the rows are of; None: the digits to train on.
        test: those of the evaluator; None: the digits to test on.
        more: further arguments of the workload.
    """
    x, y = train or digits("train")
    return TorchWorkload(
        model=lambda: nn.Sequential(
            nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
        ),
        loss=nn.CrossEntropyLoss(),
        metrics=metrics,
        train_data=lambda client: Subset(x, y, parts[client.index]),
        test_data=lambda: test or digits("test"),
        **more,
    )


def simulate(config: dict[str, Any], workload: TorchWorkload) -> dict[str, Vector]:
    """Runs a simulation; returns its seconds and metrics (V,), a value a version."""
    with TemporaryDirectory() as folder:
        central = latecomer.run(config, workload, folder=Path(folder) / "run").central
        return {name: np.array(values) for name, values in central.items()}


def first(seconds_V: Vector, there_V: npt.NDArray[np.bool_], limit: Seconds) -> Seconds:
    """Returns the first time at which something is so; the limit if it never is."""
    return float(seconds_V[there_V][0]) if there_V.any() else limit
