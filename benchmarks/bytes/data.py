"""The data sets: from a folder that the user names, or from installed packages.

Digits come with scikit-learn, and texts with Python. fashion_mnist.npz holds x_train,
y_train, x_test, y_test; shoulder_smartwatch.npz holds windows x of six channels, their
scale, y, and the number of the person, one of ten, for each window.
"""

import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.errors import WorkloadError
from fedcore.partitions import Partition, dirichlet
from fedcore.typing import Indices
from fedcore.workload import Client
from fedrun.data import digits

FASHION, WATCH = "fashion_mnist.npz", "shoulder_smartwatch.npz"
ALPHA, LEAST = 0.3, 10  # label skew; rows that every client has at least
VALIDATION = 10  # of so many rows of a client, one is held out while a rate is chosen
KEPT = 0.8  # of a person's windows of a class, the first ones: the rest are the test
# A module's text: characters that are read, how many make a row, and the share of rows,
# the first ones, that is trained on.
TEXT, ROW, TOLD = 5_000, 20, 0.8
FIRST, LAST = ord(" "), ord("~")  # characters with a symbol of their own
SYMBOLS = LAST - FIRST + 3  # the end of a line, and one for all others


class Rows(NamedTuple):
    """Inputs and labels."""

    x: npt.NDArray[Any]
    y: npt.NDArray[np.int64]

    def take(self, rows: Indices) -> "Rows":
        """Some of them."""
        return Rows(self.x[rows], self.y[rows])


class Shared(NamedTuple):
    """A data set as its clients hold it."""

    train: Rows
    test: Rows
    parts: Partition


Share = Callable[[str, int, int], Shared]  # of a folder, for so many clients, a seed


def shares(share: Share) -> Callable[[Client], Rows]:
    """The ``train_data`` of a workload whose clients are told folder and seed."""

    def train_data(client: Client) -> Rows:
        shared = share(client.args["data"], client.count, int(client.args["seed"]))
        return shared.train.take(shared.parts[client.index])

    return train_data


@cache
def fashion_mnist(folder: str, clients: int, seed: int) -> Shared:
    """Images (N, 784) of values up to 1, dealt out with label skew."""
    raw = _load(Path(folder) / FASHION)
    train, test = (
        Rows(
            raw[f"x_{split}"].reshape(-1, 784).astype(np.float32) / 255,
            raw[f"y_{split}"].astype(np.int64),
        )
        for split in ("train", "test")
    )
    return Shared(train, test, _skewed(train.y, clients, seed))


@cache
def shoulder_smartwatch(folder: str, clients: int, seed: int) -> Shared:
    """Windows (N, 6, 100); every person is a client, whatever the seed.

    Raises:
        WorkloadError: not as many clients as people.
    """
    raw = _load(Path(folder) / WATCH)
    x = (raw["x"] * raw["scale"]).astype(np.float32).transpose(0, 2, 1)
    x[:, 3:] /= 4  # the gyroscope, to the size of the accelerometer
    all_of_them = Rows(np.asarray(x, order="C"), raw["y"].astype(np.int64))
    people = np.unique(raw["client"])
    if clients != len(people):
        raise WorkloadError(f"{WATCH} is of {len(people)} people, not {clients}")
    late = np.zeros(len(x), bool)
    for person in people:
        for label in np.unique(all_of_them.y):
            rows = np.flatnonzero((raw["client"] == person) & (all_of_them.y == label))
            late[rows[int(len(rows) * KEPT) + 1 :]] = True  # windows overlap by half
    parts = [np.flatnonzero((raw["client"] == person) & ~late) for person in people]
    return Shared(all_of_them, all_of_them.take(np.flatnonzero(late)), parts)


@cache
def small_digits(folder: str, clients: int, seed: int) -> Shared:
    """Images (N, 64), dealt out with label skew; the folder is not looked at."""
    train, test = Rows(*digits("train")), Rows(*digits("test"))
    return Shared(train, test, _skewed(train.y, clients, seed))


@cache
def library_texts(folder: str, clients: int, seed: int) -> Shared:
    """Rows (N, 20) of characters and of those that follow them, as symbols.

    Every client is a module of Python's standard library, by name, whatever the seed;
    the folder is not looked at. Another version of Python has other texts.

    Raises:
        WorkloadError: fewer modules with enough text than clients.
    """
    library = Path(sysconfig.get_path("stdlib"))
    texts = [path.read_bytes()[: TEXT + 1] for path in sorted(library.glob("*.py"))]
    texts = [text for text in texts if len(text) > TEXT][:clients]
    if len(texts) < clients:
        raise WorkloadError(
            f"{library} has {len(texts)} modules of {TEXT:,} characters, not {clients}"
        )
    symbols = np.stack([_symbols(text) for text in texts])
    x, y = (part.reshape(-1, ROW) for part in (symbols[:, :-1], symbols[:, 1:]))
    rows = np.arange(len(x)).reshape(clients, -1)
    until = round(TOLD * rows.shape[1])
    test = Rows(x, y).take(rows[:, until:].ravel())
    return Shared(Rows(x, y), test, list(rows[:, :until]))


def _symbols(text: bytes) -> npt.NDArray[np.int64]:
    codes = np.frombuffer(text, np.uint8).astype(np.int64)
    symbols = np.where((codes >= FIRST) & (codes <= LAST), codes - FIRST, SYMBOLS - 1)
    return np.where(codes == ord("\n"), SYMBOLS - 2, symbols)


def held_out(share: Share) -> Share:
    """A data set without its test: every tenth row of a client takes its place."""

    @cache
    def split(folder: str, clients: int, seed: int) -> Shared:
        whole = share(folder, clients, seed)
        kept, out = [], []
        for rows in whole.parts:
            is_out = np.arange(len(rows)) % VALIDATION == VALIDATION - 1
            kept.append(rows[~is_out])
            out.append(rows[is_out])
        return Shared(whole.train, whole.train.take(np.concatenate(out)), kept)

    return split


def _skewed(y: npt.NDArray[np.int64], clients: int, seed: int) -> Partition:
    return dirichlet(y, clients=clients, alpha=ALPHA, seed=seed, min_size=LEAST)


def _load(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise WorkloadError(f"{path}: no such file; --data FOLDER says where it is")
    with np.load(path, allow_pickle=False) as raw:
        return dict(raw)
