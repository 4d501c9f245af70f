"""The learning tasks, with their clients and their settings of training."""

from dataclasses import dataclass
from typing import Any

from benchmarks.bytes.data import (
    Share,
    fashion_mnist,
    library_texts,
    shoulder_smartwatch,
    small_digits,
)


@dataclass(frozen=True, slots=True)
class Task:
    """A workload and its federation. A round is one version."""

    title: str
    app: str
    share: Share
    clients: int = 100
    cohort: int = 10
    rounds: int = 300
    epochs: int = 1
    lr: float = 0.05
    decays: bool = False  # the learning rate, over the second half of the rounds
    batch: int = 32

    def algorithm(self, rounds: int) -> dict[str, Any]:
        """All of it but the compressors."""
        local = {"epochs": self.epochs, "lr": self.lr, "batch": self.batch}
        span = {"kind": "linear", "after": rounds // 2, "until": rounds}
        schedule = span if self.decays else None
        return {
            "kind": "double_compression",
            "buffer": self.cohort,
            "min_clients": self.clients,
            "selection": {"kind": "uniform"},
            "client": {"kind": "local_sgd", "schedule": schedule, **local},
        }


TASKS = {
    "mlp": Task(
        "Fashion-MNIST, MLP 784-128-10", "benchmarks.bytes.mlp:fashion", fashion_mnist
    ),
    "mlp_decay": Task(
        "Fashion-MNIST, MLP 784-128-10, learning rate .1 that falls",
        "benchmarks.bytes.mlp:fashion",
        fashion_mnist,
        lr=0.1,
        decays=True,
    ),
    "cnn": Task(
        "Fashion-MNIST, CNN of 106,122", "benchmarks.bytes.cnn:fashion", fashion_mnist
    ),
    "watch": Task(
        "exercises on a smartwatch, 1D-CNN of 23,847, people as clients",
        "benchmarks.bytes.cnn:watch",
        shoulder_smartwatch,
        clients=10,
        epochs=2,
        lr=0.2,
        decays=True,
    ),
    "text": Task(
        "modules of Python's standard library, next character, GRU of 23,601",
        "benchmarks.bytes.gru:texts",
        library_texts,
        rounds=100,
        lr=4.0,
        decays=True,
    ),
    "digits": Task(
        "digits, MLP 64-32-10, to try it out",
        "benchmarks.bytes.mlp:digits",
        small_digits,
        clients=6,
        cohort=3,
        rounds=20,
    ),
}
