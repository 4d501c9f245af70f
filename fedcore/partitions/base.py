"""The contract of partitioners: labels in, the rows of each client out.

A partitioner is a pure function of its arguments: every client can compute the
whole partition and take its own part. The last few partitions are kept, so that a
thousand clients of one process, which ask for the same one, do not compute it a
thousand times.
"""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedcore.typing import Counts, Indices

Partition = Sequence[Indices]  # the rows of each client, ascending; no row twice
Labels = npt.NDArray[np.generic] | Sequence[int] | Sequence[str]
Partitioner = TypeVar("Partitioner", bound=Callable[..., Partition])
REMEMBERED = 4  # partitions that are kept, with their labels
NOBODY = -1  # the owner of a row that no client has


class Parts(Sequence[Indices]):
    """A partition as one array of rows, of which each client has a piece.

    It cannot be changed: what is taken out of it is a copy.
    """

    __slots__ = ("_ends", "_rows")

    def __init__(self, owner_R: Indices, clients: int) -> None:
        """Groups the rows by their owners.

        Args:
            owner_R: the client of each row, or ``NOBODY``.
            clients: the number of clients.
        """
        order = np.argsort(owner_R, kind="stable")
        sizes = np.bincount(owner_R[owner_R != NOBODY], minlength=clients)
        self._rows = order[len(order) - int(sizes.sum()) :]  # nobody comes first
        self._ends = np.concatenate([[0], np.cumsum(sizes)])

    def __len__(self) -> int:
        """Returns the number of clients."""
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> Indices: ...

    @overload
    def __getitem__(self, index: slice) -> list[Indices]: ...

    def __getitem__(self, index: int | slice) -> Indices | list[Indices]:
        """Returns a copy of the rows of a client; for a slice, a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} clients, no client {index}")
        place = index % len(self)
        return self._rows[self._ends[place] : self._ends[place + 1]].copy()

    def __repr__(self) -> str:
        """Returns the numbers of clients and rows."""
        return f"Parts({len(self)} clients, {len(self._rows)} rows)"


class _Known(NamedTuple):
    method: str
    settings: str
    labels_R: npt.NDArray[np.generic]
    parts: Partition


_known: list[_Known] = []  # the newest first


def memoise(partitioner: Partitioner) -> Partitioner:
    """Makes a partitioner return a partition that it has just made from memory.

    The labels are compared one by one with a copy of those before: that is exact, and
    20 times faster than a digest of them.
    """
    first = next(iter(signature(partitioner).parameters))

    @wraps(partitioner)
    def recall(*labels: Labels, **settings: Any) -> Partition:
        if not labels and first not in settings:
            return partitioner(**settings)  # which says what is missing
        labels_R = np.asarray(labels[0] if labels else settings.pop(first))
        asked = repr((labels[1:], sorted(settings.items())))  # tells 1 from 1.0
        for known in tuple(_known):
            if (
                (known.method, known.settings) == (partitioner.__name__, asked)
                and known.labels_R.dtype == labels_R.dtype
                and np.array_equal(known.labels_R, labels_R)
            ):
                return known.parts
        parts = partitioner(labels_R, *labels[1:], **settings)
        entry = _Known(partitioner.__name__, asked, labels_R.copy(), parts)
        _known[:] = [entry, *_known[: REMEMBERED - 1]]
        return parts

    return cast(Partitioner, recall)


def check_clients(rows: int, clients: int, min_size: int = 1) -> None:
    """Checks that there can be ``min_size`` rows for each client.

    Raises:
        ConfigError: there are too few rows, or a number is out of range.
    """
    if clients < 1:
        raise ConfigError(f"a partition needs at least 1 client, got {clients}")
    if min_size < 0:
        raise ConfigError(f"min_size must be 0 or more, got {min_size}")
    if clients > rows:
        raise ConfigError(f"{rows} rows cannot be shared out among {clients} clients")
    if clients * min_size > rows:
        raise ConfigError(
            f"{rows} rows cannot give each of {clients} clients {min_size}; use fewer "
            "clients or a smaller min_size"
        )


def check_positive(name: str, value: float) -> None:
    """Checks a parameter of a distribution.

    Raises:
        ConfigError: it is not above 0 and finite.
    """
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} must be above 0 and finite, got {value}")


def even_sizes(rows: int, parts: int) -> Counts:
    """Splits ``rows`` into sizes that differ by at most one, the larger ones first."""
    sizes = np.full(parts, rows // parts, np.int64)
    sizes[: rows % parts] += 1
    return sizes


def owners(sizes_N: Counts) -> Indices:
    """Returns the owners of rows in order: all rows of client 0, then of client 1."""
    return np.repeat(np.arange(len(sizes_N)), sizes_N)


def classes_of(y: Labels) -> tuple[npt.NDArray[np.generic], Indices]:
    """Returns the sorted distinct labels, and the place of each row's label."""
    return np.unique(np.asarray(y), return_inverse=True)


def rows_of_classes(class_R: Indices) -> list[Indices]:
    """Returns the rows of each class, ascending."""
    order = np.argsort(class_R, kind="stable")
    return np.split(order, np.cumsum(np.bincount(class_R))[:-1])


def deal_shards(y: Labels, clients: int, per_client: int, seed: int) -> Indices:
    """Cuts the rows, sorted by label, into equal shards and deals them at random.

    Returns:
        The client of each row.

    Raises:
        ConfigError: there are fewer rows than shards.
    """
    check_clients(len(y), clients)
    count = clients * per_client
    if not 1 <= per_client <= len(y) // clients:
        raise ConfigError(
            f"{len(y)} rows cannot be cut into {clients} times {per_client} shards"
        )
    order = Key.root(seed).fold_in("shards").generator().permutation(count)
    holder = np.empty(count, np.int64)  # of each shard
    holder[order] = np.repeat(np.arange(clients), per_client)
    owner_R = np.empty(len(y), np.int64)
    by_label = np.argsort(np.asarray(y), kind="stable")
    owner_R[by_label] = np.repeat(holder, even_sizes(len(y), count))
    return owner_R
