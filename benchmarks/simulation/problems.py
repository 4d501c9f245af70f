"""The problems of the contenders: data, the clients' parts of it, and settings."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.bytes.data import ALPHA, fashion_mnist
from benchmarks.simulation.peers.problem import Floats, Integers, Problem
from fedcore.partitions import dirichlet
from fedcore.rng import Key
from fedrun.data import digits

LARGE = [int(1_000 * 46.251 ** (place / 14)) for place in range(15)]
TINY = 25
SAMPLES = 20  # of a client, where their number does not follow from the data
PERCEPTRON = ((32, 64), (32,), (10, 32), (10,))
CNN = ((16, 1, 5, 5), (16,), (32, 16, 3, 3), (32,), (64, 1568), (64,), (10, 64), (10,))
Shape = tuple[int, ...]


def digits_of_100(_: Path) -> Problem:
    """Every image of the training set belongs to one of 100 clients."""
    y = digits("train")[1]
    parts = dirichlet(y, clients=100, alpha=ALPHA, seed=0)
    return _perceptron(np.concatenate(parts), np.array([len(p) for p in parts]), 10)


def digits_of(clients: int) -> Callable[[Path], Problem]:
    """Each client has 20 images; the training set is small, so they share them."""

    def make(_: Path) -> Problem:
        y = digits("train")[1]
        rng = Key.root(0).fold_in("simulation", clients).generator()
        shares = rng.dirichlet(np.full(10, ALPHA), clients)
        # A sample is of the first class at which the sum of shares exceeds a number.
        drawn = rng.random((clients, SAMPLES))
        labels = (drawn[:, :, None] > shares.cumsum(axis=1)[:, None, :]).sum(axis=2)
        by_label = np.argsort(y, kind="stable")
        counts = np.bincount(y, minlength=10)
        labels = np.minimum(labels, 9)
        nth = (rng.random(labels.shape) * counts[labels]).astype(np.int64)
        rows = by_label[(counts.cumsum() - counts)[labels] + nth]
        return _perceptron(rows.reshape(-1), np.full(clients, SAMPLES), 100)

    return make


def digits_of_unequal(clients: Sequence[int]) -> Callable[[Path], Problem]:
    """Each client has so many images, many of them more than once."""

    def make(_: Path) -> Problem:
        there = len(digits("train")[1])
        sizes = np.array(clients)
        rng = Key.root(0).fold_in("unequal").generator()
        rows = rng.integers(there, size=int(sizes.sum()))
        return _perceptron(rows, sizes, len(sizes))

    return make


def fashion_of_1000(folder: Path) -> Problem:
    """60 images on average, dealt out with label skew."""
    train, test, parts = fashion_mnist(str(folder), 1000, 0)
    return Problem(
        model="cnn",
        x=train.x.reshape(-1, 1, 28, 28),
        y=train.y,
        rows=np.concatenate(parts),
        bounds=_bounds(np.array([len(p) for p in parts])),
        x_test=test.x.reshape(-1, 1, 28, 28),
        y_test=test.y,
        initial=_initial(CNN),
        cohort=50,
        epochs=1,
        lr=0.05,
        batch=16,
    )


def _perceptron(rows: Integers, sizes: Integers, cohort: int) -> Problem:
    (x, y), (x_test, y_test) = digits("train"), digits("test")
    return Problem(
        model="perceptron",
        x=x,
        y=y,
        rows=rows,
        bounds=_bounds(sizes),
        x_test=x_test,
        y_test=y_test,
        initial=_initial(PERCEPTRON),
        cohort=cohort,
        epochs=1,
        lr=0.1,
        batch=16,
    )


def _bounds(sizes: Integers) -> Integers:
    return np.concatenate([[0], sizes.cumsum()])


def _initial(shapes: tuple[Shape, ...]) -> list[Floats]:
    """Uniform within ±1/√(inputs), as torch draws weights and biases of a layer."""
    rng = Key.root(0).fold_in("initial").generator()
    mosts = [np.prod(weight[1:]) ** -0.5 for weight in shapes[::2] for _ in range(2)]
    return [
        rng.uniform(-most, most, shape).astype(np.float32)
        for most, shape in zip(mosts, shapes, strict=True)
    ]


PROBLEMS: dict[str, Callable[[Path], Problem]] = {  # of the folder of data sets
    "digits, 100": digits_of_100,
    "digits, 1,000": digits_of(1_000),
    "digits, 10,000": digits_of(10_000),
    "digits, 100,000": digits_of(100_000),
    "digits, unequal": digits_of_unequal(LARGE),
    "digits, unequal and one tiny": digits_of_unequal((*LARGE, TINY)),
    "fashion": fashion_of_1000,
}
