"""The samples of many clients, in arrays from which stacks are gathered.

Clients whose samples have one form (:func:`form_of`) have their samples in the same
arrays. Where they all have a :class:`~fedcore.samples.Subset` of the same arrays, only
their rows are kept; other arrays are copied into one. A data set that is read sample by
sample stays what it is, and its samples are not kept.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcore.arrays import array_namespace, as_numpy, is_numpy
from fedcore.errors import WorkloadError
from fedcore.labels import count_labels
from fedcore.samples import ArraySamples, Samples, Subset, form, take_rows
from fedcore.typing import Array, Counts, Indices


class Part:
    """The samples of clients of one form, which never change."""

    def __init__(self, number: int, samples: ArraySamples | Subset) -> None:
        """Starts without clients.

        Args:
            number: of the part in its pool.
            samples: of the client that will be the first one.
        """
        self.number = number
        self.is_shared = isinstance(samples, Subset)
        """Whether all clients have rows of the same arrays."""
        self.x: Any = samples.x if self.is_shared else None
        self.y: Any = samples.y if self.is_shared else None
        self._used = 0  # rows of x and y, unless they are shared
        self._rows = np.empty(0, np.int64)  # of all clients, one behind the other
        self._placed = 0
        self._starts: dict[int, int] = {}

    def shares(self, samples: ArraySamples | Subset) -> bool:
        """Returns whether these samples are rows of the arrays of all clients."""
        return self.is_shared and samples.x is self.x and samples.y is self.y

    def add(self, client: int, samples: ArraySamples | Subset) -> None:
        """Places the rows of a client behind those of the others."""
        if isinstance(samples, Subset) and self.shares(samples):
            rows = np.asarray(samples.rows, np.int64)
        else:
            if self.is_shared:
                self._own()
            everything = samples.x, samples.y
            if isinstance(samples, Subset):
                everything = samples.batch(np.arange(len(samples)))
            rows = self._append(*everything)
        start, end = self._placed, self._placed + len(rows)
        if end <= len(self._rows):
            self._rows[start:end] = rows
        else:
            self._rows = _grow(self._rows, start, rows)
        self._starts[client], self._placed = start, end

    def rows_of(self, client: int, count: int) -> Indices:
        """Returns the places of a client's samples in the arrays."""
        start = self._starts[client]
        return self._rows[start : start + count]

    def rows(self, clients: Sequence[int], local: Indices) -> Indices:
        """Returns the places of rows of clients in the arrays.

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
        return _take(self.x, rows), _take(self.y, rows)

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts each class among these rows."""
        return count_labels(self.y, rows)

    def _own(self) -> None:
        """Copies the samples of all clients so far, since they share no arrays."""
        rows, self.is_shared = self._rows[: self._placed], False
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


class Pool:
    """The samples of clients, which never change.

    What one client has never changes what another one has: samples of another form are
    in arrays of their own.
    """

    def __init__(self, *, counts_labels: bool = True) -> None:
        """Starts without clients.

        Args:
            counts_labels: whether to count labels, for :meth:`counts`.
        """
        self._counts_labels = counts_labels
        self._room_ND: Array | None = None
        self._parts: dict[Hashable, Part] = {}  # by the form of their samples
        self._first: Part | None = None
        self._others: dict[int, Part] = {}  # of clients that are not in the first one
        self._sizes: dict[int, int] = {}
        self._counts: dict[int, Counts | None] = {}
        self._read: dict[int, Samples] = {}  # data sets that are read as they are used

    def __contains__(self, client: int) -> bool:
        """Returns whether this client's samples are here."""
        return client in self._sizes

    def size(self, client: int) -> int:
        """Returns the number of a client's samples."""
        return self._sizes[client]

    def sizes(self, clients: Sequence[int]) -> Counts:
        """Returns the number of samples of each of these clients, shape (N,)."""
        return np.array(list(map(self._sizes.__getitem__, clients)))

    def counts(self, client: int) -> Counts | None:
        """Counts each class among a client's samples, where that is known."""
        return self._counts.get(client)

    def add(self, client: int, samples: Samples) -> None:
        """Takes in the samples of a client.

        Raises:
            WorkloadError: an array has not a row for each of them.
        """
        count = len(samples)
        if isinstance(samples, ArraySamples | Subset):
            part = self._part_for(samples)
            part.add(client, samples)
            if part is not self._first:
                self._others[client] = part
        else:
            self._read[client] = samples
        self._sizes[client] = count
        if self._counts_labels:
            self._counts[client] = samples.label_counts(np.arange(count))

    def _part_for(self, samples: ArraySamples | Subset) -> Part:
        first = self._first
        if first is not None and first.shares(samples):  # as nearly always
            return first
        key = form_of((samples.x, samples.y))
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = Part(len(self._parts), samples)
            self._first = first or part
        return part

    def are_read(self, clients: Iterable[int]) -> bool:
        """Returns whether batches of these clients are made one by one.

        The samples of one of them are read when they are used, or they are of several
        forms.
        """
        if self._read and not self._read.keys().isdisjoint(clients):
            return True
        return bool(self._others) and len(set(map(self.number_of, clients))) > 1

    def samples_of(self, client: int) -> Samples:
        """Returns samples of a client by their rows, counted from its first one."""
        found = self._read.get(client)
        if found is not None:
            return found
        return _Placed(self.part_of(client), self.rows_of(client))

    def part_of(self, client: int) -> Part:
        """Returns the part that holds a client's samples, which are not read singly."""
        part = self._others.get(client, self._first)
        assert part is not None
        return part

    def number_of(self, client: int) -> int:
        """Returns the number of the part with a client's samples; -1: they are read."""
        return -1 if client in self._read else self.part_of(client).number

    @property
    def is_mixed(self) -> bool:
        """Whether there are samples of several forms."""
        return bool(self._others)

    @property
    def whole(self) -> Part:
        """The only part.

        Raises:
            WorkloadError: samples are of several forms.
        """
        if len(self._parts) > 1:
            forms = [form((part.x, part.y)) for part in self._parts.values()]
            (x, y), (other_x, other_y) = (_of_a_sample(each) for each in forms[:2])
            raise WorkloadError(
                f"train_data returned samples of different forms, (x {x}, y {y}) and "
                f"(x {other_x}, y {other_y}), or numbers of different types; expected "
                "one form"
            )
        assert self._first is not None
        return self._first

    @property
    def shared(self) -> tuple[Any, Any] | None:
        """The inputs and targets of which the clients of the first part have rows."""
        part = self._first
        return None if part is None or not part.is_shared else (part.x, part.y)

    def rows_of(self, client: int) -> Indices:
        """Returns the places of a client's samples in its part."""
        return self.part_of(client).rows_of(client, self._sizes[client])

    def room(self, count: int, like_D: Array) -> Array:
        """Returns memory for ``count`` models (N, D), which later stacks use again.

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


@dataclass(frozen=True)
class _Placed:
    """Rows of a part, as samples."""

    part: Part
    rows: Indices

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        return self.part.batch(self.rows[rows])

    def label_counts(self, rows: Indices) -> Counts | None:
        return self.part.label_counts(self.rows[rows])


def form_of(data: Any) -> Hashable:
    """Returns the form of samples: two clients of one form can be in the same arrays.

    It is the shape of a sample and the type of its numbers, or those of each part of a
    dict or tuple.
    """
    if isinstance(data, Mapping):
        return "dict", *((name, form_of(part)) for name, part in data.items())
    if isinstance(data, tuple):
        return "tuple", *map(form_of, data)
    array = data if is_numpy(data) else as_numpy(data[:0])
    return array.shape[1:], array.dtype.str


def _of_a_sample(shape: Any) -> Any:
    """Returns the shapes of one sample, of those of many."""
    if isinstance(shape, Mapping):
        return {name: _of_a_sample(part) for name, part in shape.items()}
    if any(isinstance(part, Mapping | tuple) for part in shape):
        return tuple(map(_of_a_sample, shape))
    return shape[1:]


def _take(data: Any, rows: Indices) -> Any:
    """Returns rows that exist, so no index is checked."""
    if isinstance(data, np.ndarray):
        return data.take(rows, axis=0, mode="clip")
    return take_rows(data, rows)


def _put(whole: Any, used: int, part: Any) -> Any:
    """Writes a part of the same form behind the rows of arrays that are in use."""
    if isinstance(part, Mapping):
        known = {} if whole is None else whole
        return {name: _put(known.get(name), used, p) for name, p in part.items()}
    if isinstance(part, tuple):
        known_parts = [None] * len(part) if whole is None else whole
        return tuple(
            _put(known, used, p) for known, p in zip(known_parts, part, strict=True)
        )
    array = np.asarray(part if is_numpy(part) else as_numpy(part))
    return array.copy() if whole is None else _grow(whole, used, array)


def _grow(whole: Any, used: int, part: Any) -> Any:
    """Writes a part behind the rows in use; an array that is full doubles."""
    needed = used + len(part)
    if needed > len(whole):
        larger = np.empty((max(needed, 2 * len(whole)), *whole.shape[1:]), whole.dtype)
        larger[:used] = whole[:used]
        whole = larger
    whole[used:needed] = part
    return whole
