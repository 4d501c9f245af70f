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
from fedcore.typing import JSON, Indices
from fedcore.workload import Client
from fedrun.data import digits, fashion_mnist
from fedtorch import TorchWorkload

Images = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
VALIDATION = 12  # every so many training images, one is held out while rates are tuned


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

    def workload(
        self, folder: str, seed: int, *, tuning: bool = False
    ) -> TorchWorkload:
        """The clients' data are drawn by the seed.

        While rates are tuned, held-out training images take the place of the test set,
        and nobody trains on them.
        """
        x, y = self.read(folder, "train")
        fit, held_out = _split(len(y))
        rows = fit if tuning else np.arange(len(y))
        parts = _parts(self, folder, seed, tuning)

        def train_data(client: Client) -> Subset:
            return Subset(x, y, rows[parts[client.index]])

        def test_data() -> Images:
            if tuning:
                return x[held_out], y[held_out]
            return self.read(folder, "test")

        return TorchWorkload(
            model=lambda: perceptron(self.sizes),
            loss=nn.CrossEntropyLoss(),
            metrics=_accuracy,
            train_data=train_data,
            test_data=test_data,
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


def _split(count: int) -> tuple[Indices, Indices]:
    """Rows to train on, and rows that are held out."""
    rows = np.arange(count)
    held_out = rows % VALIDATION == 0
    return rows[~held_out], rows[held_out]


@cache
def _parts(problem: Problem, folder: str, seed: int, tuning: bool) -> Partition:
    """Who holds which of the rows that are trained on."""
    y = problem.read(folder, "train")[1]
    if tuning:
        y = y[_split(len(y))[0]]
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
