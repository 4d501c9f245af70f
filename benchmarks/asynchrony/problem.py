"""What is learnt: data, who holds what, and the model."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from benchmarks.bytes.data import ALPHA, LEAST
from fedcore.partitions import Partition, dirichlet
from fedcore.samples import Subset
from fedcore.typing import JSON
from fedcore.workload import Client
from fedrun.data import digits, fashion_mnist
from fedtorch import TorchWorkload

Images = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Problem:
    """A data set, a perceptron, and a federation."""

    title: str
    read: Callable[[str, str], Images]  # of a folder and a split
    sizes: tuple[int, ...]  # of the layers, from the inputs to the classes
    clients: int = 2000
    batch: int = 10
    targets: tuple[float, float] = (0.78, 0.80)
    steps: float = 3.0  # of a client of middling size

    def workload(self, folder: str, seed: int) -> TorchWorkload:
        """The clients' data are drawn by the seed."""
        x, y = self.read(folder, "train")
        parts = _parts(self, folder, seed)

        def train_data(client: Client) -> Subset:
            return Subset(x, y, parts[client.index])

        return TorchWorkload(
            model=lambda: perceptron(self.sizes),
            loss=nn.CrossEntropyLoss(),
            metrics=_accuracy,
            train_data=train_data,
            test_data=lambda: self.read(folder, "test"),
        )

    def to_json(self) -> JSON:
        """What the figures depend on."""
        return {
            "title": self.title,
            "clients": self.clients,
            "batch": self.batch,
            "Dirichlet": ALPHA,
            "targets": list(self.targets),
        }


@cache
def _parts(problem: Problem, folder: str, seed: int) -> Partition:
    y = problem.read(folder, "train")[1]
    return dirichlet(y, clients=problem.clients, alpha=ALPHA, seed=seed, min_size=LEAST)


@cache
def _fashion(folder: str, split: str) -> Images:
    x, y = fashion_mnist("train" if split == "train" else "test", folder=folder)
    return x.reshape(len(x), -1), y


@cache
def _digits(folder: str, split: str) -> Images:
    return digits("train" if split == "train" else "test")


def perceptron(sizes: tuple[int, ...]) -> nn.Module:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _accuracy(output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"accuracy": (output.argmax(1) == target).float().mean()}


PROBLEMS = {
    "mlp": Problem("Fashion-MNIST, MLP 784-128-10", _fashion, (784, 128, 10)),
    "mlp_32": Problem("Fashion-MNIST, MLP 784-32-10", _fashion, (784, 32, 10)),
    "softmax": Problem("Fashion-MNIST, softmax regression", _fashion, (784, 10)),
    "digits": Problem(
        "digits, MLP 64-32-10, to try it out",
        _digits,
        (64, 32, 10),
        clients=60,
        targets=(0.7, 0.8),
    ),
}
