"""The learning problem: data, the clients' parts of it, and the model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from torch import nn

from benchmarks.bytes.cnn import accuracy, images, motions
from benchmarks.bytes.data import (
    ALPHA,
    LEAST,
    Rows,
    Shared,
    held_out,
    shoulder_smartwatch,
)
from fedcore.partitions import dirichlet
from fedcore.samples import Subset
from fedcore.typing import JSON, Indices
from fedcore.workload import Client
from fedrun.data import digits, fashion_mnist
from fedtorch import TorchWorkload

Images = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
Read = Callable[[str, str], Images]  # of a folder and a split
# Of a folder, for so many clients, by a seed; while rates are tuned, held-out training
# rows take the place of the test set, and nobody trains on them.
Deal = Callable[[str, int, int, bool], Shared]
VALIDATION = 12  # every so many training images, one is held out while rates are tuned


@dataclass(frozen=True, slots=True)
class Problem:
    """A data set, a model, and a federation."""

    title: str
    deal: Deal
    model: Callable[[], nn.Module]
    clients: int = 2000
    batch: int = 10
    targets: tuple[float, float] = (0.78, 0.80)
    steps: float = 3.0  # of a client of middling size
    about: JSON = field(default_factory=lambda: {"Dirichlet": ALPHA})

    def workload(
        self, folder: str, seed: int, *, tuning: bool = False
    ) -> TorchWorkload:
        """The clients' data are drawn by the seed."""
        dealt = partial(self.deal, folder, self.clients, seed, tuning)

        def train_data(client: Client) -> Subset:
            shared = dealt()
            return Subset(*shared.train, shared.parts[client.index])

        return TorchWorkload(
            model=self.model,
            loss=nn.CrossEntropyLoss(),
            metrics=accuracy,
            train_data=train_data,
            test_data=lambda: dealt().test,
        )

    def to_json(self) -> JSON:
        """What the figures depend on."""
        return {
            "title": self.title,
            "clients": self.clients,
            "batch": self.batch,
            **self.about,
            "targets": list(self.targets),
        }


def _split(count: int) -> tuple[Indices, Indices]:
    """Rows to train on, and rows that are held out."""
    rows = np.arange(count)
    held = rows % VALIDATION == 0
    return rows[~held], rows[held]


def with_label_skew(read: Read) -> Deal:
    """Deals out what is read, by Dirichlet's distribution of labels."""

    @cache
    def deal(folder: str, clients: int, seed: int, tuning: bool) -> Shared:
        train = Rows(*read(folder, "train"))
        fit, held = _split(len(train.y)) if tuning else (np.arange(len(train.y)), None)
        parts = dirichlet(
            train.y[fit], clients=clients, alpha=ALPHA, seed=seed, min_size=LEAST
        )
        test = Rows(*read(folder, "test")) if held is None else train.take(held)
        return Shared(train, test, [fit[rows] for rows in parts])

    return deal


def people(folder: str, clients: int, seed: int, tuning: bool) -> Shared:
    """Every person is a client, whatever the seed."""
    share = held_out(shoulder_smartwatch) if tuning else shoulder_smartwatch
    return share(folder, clients, seed)


@cache
def _fashion(folder: str, split: str) -> Images:
    x, y = fashion_mnist("train" if split == "train" else "test", folder=folder)
    return x.reshape(len(x), -1), y


@cache
def _digits(folder: str, split: str) -> Images:
    return digits("train" if split == "train" else "test")


def perceptron(*sizes: int) -> Callable[[], nn.Module]:
    """Linear layers with ReLU between them, from the inputs to the classes."""

    def network() -> nn.Module:
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    return network


CLOTHES = with_label_skew(_fashion)
PROBLEMS = {
    "mlp": Problem("Fashion-MNIST, MLP 784-128-10", CLOTHES, perceptron(784, 128, 10)),
    "mlp_32": Problem("Fashion-MNIST, MLP 784-32-10", CLOTHES, perceptron(784, 32, 10)),
    "softmax": Problem(
        "Fashion-MNIST, softmax regression", CLOTHES, perceptron(784, 10)
    ),
    "cnn": Problem(
        "Fashion-MNIST, CNN of 106,122",
        CLOTHES,
        images,
        clients=200,
        batch=20,
        steps=15.0,
        targets=(0.75, 0.8),
    ),
    "watch": Problem(
        "exercises on a smartwatch, 1D-CNN of 23,847, people as clients",
        people,
        motions,
        clients=10,
        batch=32,
        steps=12.0,
        targets=(0.7, 0.8),
        about={"people": 10},
    ),
    "digits": Problem(
        "digits, MLP 64-32-10, to try it out",
        with_label_skew(_digits),
        perceptron(64, 32, 10),
        clients=60,
        targets=(0.7, 0.8),
    ),
}
