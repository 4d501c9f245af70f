"""Data of one client as rows: how many, and the batch of some of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedcore.errors import WorkloadError
from fedcore.typing import Counts, Indices

MOST_CLASSES = 65_536  # larger integers are no labels; the server would refuse them


class Samples(Protocol):
    """What training needs of a data set."""

    def __len__(self) -> int:
        """How many samples there are."""

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these rows."""

    def label_counts(self, rows: Indices) -> Counts | None:
        """How often each class is among these rows; None where there are no labels."""


@dataclass(frozen=True)
class ArraySamples:
    """Arrays whose first axis is the samples; inputs may be a dict or tuple of them."""

    x: Any
    y: Any

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.y)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these rows."""
        return take_rows(self.x, rows), take_rows(self.y, rows)

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts of integer labels, if the targets are a vector of them."""
        return count_labels(self.y, rows)


@dataclass(frozen=True)
class IndexedSamples:
    """Anything with ``len`` and ``[i]`` that yields (x, y): a map-style data set."""

    source: Any
    collate: Callable[[Sequence[Any]], tuple[Any, Any]]

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.source)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these rows, collated."""
        return self.collate([self.source[int(row)] for row in rows])

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts of the ``targets`` that many data sets carry beside their samples."""
        return count_labels(getattr(self.source, "targets", None), rows)


def as_samples(data: Any, whose: str) -> Samples:
    """Rows of whatever a user's function returned.

    Raises:
        WorkloadError: neither a pair of arrays nor a map-style data set, or empty.
    """
    samples: Samples
    if isinstance(data, tuple) and len(data) == 2:
        x, y = (np.asarray(p) if isinstance(p, list) else p for p in data)
        samples = ArraySamples(x, y)
        _check_lengths(x, len(y), whose)
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        samples = IndexedSamples(data, stack_pairs)
    else:
        raise WorkloadError(
            f"{whose} returned {type(data).__name__}; expected (x, y) or a data set "
            "with len() and [i]"
        )
    if not len(samples):
        raise WorkloadError(f"{whose} returned no samples")
    return samples


def stack_pairs(items: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """A batch of (x, y) items as two arrays."""
    inputs, targets = zip(*items, strict=True)
    return np.stack(inputs), np.asarray(targets)


def take_rows(data: Any, rows: Indices) -> Any:
    """The rows of an array, or of each array in a dict or tuple."""
    if isinstance(data, Mapping):
        return {name: take_rows(part, rows) for name, part in data.items()}
    if isinstance(data, tuple):
        return tuple(take_rows(part, rows) for part in data)
    return data[rows]


def count_labels(targets: Any, rows: Indices) -> Counts | None:
    """How often each class is among the rows of integer targets."""
    if targets is None or not len(rows):
        return None
    chosen = np.asarray(targets)[rows]
    if (
        chosen.ndim != 1
        or not np.issubdtype(chosen.dtype, np.integer)
        or chosen.min() < 0
        or chosen.max() >= MOST_CLASSES
    ):
        return None
    return np.bincount(chosen)


def _check_lengths(x: Any, rows: int, whose: str) -> None:
    parts = (
        x.values() if isinstance(x, Mapping) else x if isinstance(x, tuple) else (x,)
    )
    for part in parts:
        if len(part) != rows:
            raise WorkloadError(
                f"{whose} returned {len(part)} inputs and {rows} targets"
            )
