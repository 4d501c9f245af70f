"""The samples of many clients in one place, from which stacks are gathered.

Where all clients have a :class:`~fedcore.samples.Subset` of the same arrays, only their
rows are kept; other arrays are copied into one. A data set that is read sample by
sample stays what it is, and its samples are not kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcore.arrays import array_namespace, as_numpy, is_numpy
from fedcore.errors import WorkloadError
from fedcore.labels import count_labels
from fedcore.samples import ArraySamples, Samples, Subset, take_rows
from fedcore.typing import Array, Counts, Indices


class Pool:
    """The samples of clients, which never change."""

    def __init__(self, *, counts_labels: bool = True) -> None:
        """Starts without clients.

        Args:
            counts_labels: whether to count labels, for :meth:`counts`.
        """
        self._counts_labels = counts_labels
        self.x: Any = None
        self.y: Any = None
        self._room_ND: Array | None = None
        self._shared = False
        self._used = 0  # rows of x and y
        self._rows = np.empty(0, np.int64)  # of all clients, one behind the other
        self._placed = 0
        self._starts: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._counts: dict[int, Counts | None] = {}
        self._read: dict[int, Samples] = {}  # data sets that are read as they are used

    def __contains__(self, client: int) -> bool:
        """Whether this client's samples are here."""
        return client in self._sizes

    def size(self, client: int) -> int:
        """How many samples a client has."""
        return self._sizes[client]

    def sizes(self, clients: Sequence[int]) -> Counts:
        """How many samples each of these clients has, shape (N,)."""
        return np.array(list(map(self._sizes.__getitem__, clients)))

    def counts(self, client: int) -> Counts | None:
        """How often each class is among a client's samples, where that is known."""
        return self._counts.get(client)

    def add(self, client: int, samples: Samples) -> None:
        """Takes in the samples of a client.

        Raises:
            WorkloadError: they do not have the shape of those before.
        """
        count = len(samples)
        if isinstance(samples, ArraySamples | Subset):
            self._place(client, samples)
        else:
            self._read[client] = samples
        self._sizes[client] = count
        if self._counts_labels:
            self._counts[client] = samples.label_counts(np.arange(count))

    def _place(self, client: int, samples: ArraySamples | Subset) -> None:
        """Places the rows of a client behind those of the others."""
        if isinstance(samples, Subset) and self._shares(samples):
            rows = np.asarray(samples.rows, np.int64)
        else:
            if self._shared:
                self._own()
            everything = samples.x, samples.y
            if isinstance(samples, Subset):
                everything = samples.batch(np.arange(len(samples)))
            rows = self._append(*everything)
        start, end = self._placed, self._placed + len(rows)
        if end <= len(self._rows):
            self._rows[start:end] = rows
        else:
            self._rows = _grown(self._rows, start, rows)
        self._starts[client], self._placed = start, end

    def are_read(self, clients: Iterable[int]) -> bool:
        """Whether samples of one of these clients are read when they are used."""
        return bool(self._read) and not self._read.keys().isdisjoint(clients)

    def samples_of(self, client: int) -> Samples:
        """The samples of a client, by the rows that are counted from its first one."""
        found = self._read.get(client)
        return _Placed(self, self.rows_of(client)) if found is None else found

    @property
    def shared(self) -> tuple[Any, Any] | None:
        """The inputs and targets of which all clients have rows, if there are such."""
        return (self.x, self.y) if self._shared else None

    def rows_of(self, client: int) -> Indices:
        """Where a client's samples lie in the pool."""
        start = self._starts[client]
        return self._rows[start : start + self._sizes[client]]

    def rows(self, clients: Sequence[int], local: Indices) -> Indices:
        """Where rows of clients lie in the pool.

        Args:
            clients: N of them.
            local: of each client, rows counted from its first one, shape (N, ...).
        """
        starts_N = np.array([self._starts[client] for client in clients])
        rows: Indices = self._rows.take(
            local + starts_N.reshape(-1, *[1] * (local.ndim - 1)), mode="clip"
        )
        return rows

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these rows, shape ``rows.shape + (...)``."""
        return _taken(self.x, rows), _taken(self.y, rows)

    def room(self, count: int, like_D: Array) -> Array:
        """Memory for ``count`` models (N, D), which is used again by later stacks.

        So views of it stay valid from stack to stack.

        Args:
            count: the number of models.
            like_D: has the models' size, data type and device.
        """
        if self._room_ND is None or len(self._room_ND) < count:
            xp = array_namespace(like_D)
            shape = count, like_D.shape[-1]
            self._room_ND = xp.empty(shape, dtype=like_D.dtype, device=like_D.device)
        return self._room_ND[:count]

    def label_counts(self, rows: Indices) -> Counts | None:
        """How often each class is among these rows."""
        return count_labels(self.y, rows)

    def _shares(self, samples: Subset) -> bool:
        """Whether all clients so far, and this one, have rows of the same arrays."""
        if not self._starts:
            self.x, self.y, self._shared = samples.x, samples.y, True
        return self._shared and samples.x is self.x and samples.y is self.y

    def _own(self) -> None:
        """Copies the samples of all clients so far, since they share no arrays."""
        rows, self._shared = self._rows[: self._placed], False
        self.x = _put(None, 0, take_rows(self.x, rows))
        self.y = _put(None, 0, take_rows(self.y, rows))
        self._rows = np.arange(self._placed)
        self._used = self._placed

    def _append(self, x: Any, y: Any) -> Indices:
        count = len(y)
        self.x = _put(self.x, self._used, x)
        self.y = _put(self.y, self._used, y)
        self._used += count
        return np.arange(self._used - count, self._used)


@dataclass(frozen=True)
class _Placed:
    """Rows of a pool, as samples."""

    pool: Pool
    rows: Indices

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        return self.pool.batch(self.rows[rows])

    def label_counts(self, rows: Indices) -> Counts | None:
        return self.pool.label_counts(self.rows[rows])


def _taken(data: Any, rows: Indices) -> Any:
    """Rows that exist, so no index is checked."""
    if isinstance(data, np.ndarray):
        return data.take(rows, axis=0, mode="clip")
    return take_rows(data, rows)


def _put(whole: Any, used: int, part: Any) -> Any:
    """Writes a part behind the rows of arrays that are in use."""
    if isinstance(part, Mapping):
        known = {} if whole is None else whole
        return {name: _put(known.get(name), used, p) for name, p in part.items()}
    if isinstance(part, tuple):
        known_parts = [None] * len(part) if whole is None else whole
        return tuple(
            _put(known, used, p) for known, p in zip(known_parts, part, strict=True)
        )
    array = np.asarray(part if is_numpy(part) else as_numpy(part))
    if whole is None:
        return array.copy()
    if array.shape[1:] != whole.shape[1:]:
        raise WorkloadError(
            f"train_data returned samples of shape {array.shape[1:]}, and of "
            f"{whole.shape[1:]} to other clients: they cannot be trained together; "
            "pad them, or set simulate.engine.kind: exact"
        )
    common = np.result_type(whole.dtype, array.dtype)
    if common != whole.dtype:  # another client's numbers are wider
        whole = whole.astype(common)
    return _grown(whole, used, array)


def _grown(whole: Any, used: int, part: Any) -> Any:
    """Writes a part behind the rows in use; an array that is full doubles."""
    needed = used + len(part)
    if needed > len(whole):
        larger = np.empty((max(needed, 2 * len(whole)), *whole.shape[1:]), whole.dtype)
        larger[:used] = whole[:used]
        whole = larger
    whole[used:needed] = part
    return whole
