"""Rows of arrays that many clients share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcore.errors import WorkloadError
from fedcore.labels import count_labels
from fedcore.samples.rows import arrays_of, take_rows, whole_numbers
from fedcore.typing import Counts, Indices


@dataclass(frozen=True, slots=True, eq=False)
class Subset:
    """Some rows of arrays that many clients share: nothing is copied until it is used.

    ``train_data`` may return ``Subset(x, y, rows)`` for ``x[rows], y[rows]``. Clients
    whose subsets are of the very same arrays take no memory but for their rows, and are
    trained together without gathering their data first. The arrays may be mapped from a
    file (``np.load(path, mmap_mode="r")``); ``x`` may be a dict or tuple of arrays.

    ``x, y = subset`` copies the rows out, for a training loop that wants arrays.

    Example:
        >>> x, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
        >>> Subset(x, y, [2, 3]).batch(np.array([1]))
        (array([[6., 7.]]), array([1]))
    """

    x: Any
    y: Any
    rows: Indices

    def __post_init__(self) -> None:
        """Makes rows whole numbers; a mask becomes the rows that it marks.

        Raises:
            WorkloadError: they are not rows of these arrays.
        """
        object.__setattr__(self, "rows", _rows_of(self.rows, _rows_in(self)))

    def __len__(self) -> int:
        """Returns the number of samples."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        """Yields the inputs and the targets of all its rows, copied out."""
        yield take_rows(self.x, self.rows)
        yield take_rows(self.y, self.rows)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these of its rows."""
        places = self.rows[rows]
        return take_rows(self.x, places), whole_numbers(take_rows(self.y, places))

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts of integer labels, if the targets are a vector of them."""
        return count_labels(self.y, self.rows[rows])


def _rows_in(subset: Subset) -> int:
    """Returns the number of rows of a subset's arrays, which are all alike."""
    x, y = subset.x, subset.y
    if type(x) is type(y) is np.ndarray and x.ndim and y.ndim and len(x) == len(y):
        return len(y)  # as nearly always, and 100,000 clients ask one by one
    lengths = []
    for part in (*arrays_of(x), y):
        is_array = getattr(part, "shape", ()) and not hasattr(part, "to_numpy")
        if not is_array:  # a list would be copied for each client
            raise WorkloadError(
                "a Subset is of arrays with a row for each sample, which its clients "
                f"share; got {type(part).__name__}"
                + ("; give frame.to_numpy()" if hasattr(part, "to_numpy") else "")
            )
        lengths.append(len(part))
    if len(set(lengths)) > 1:
        raise WorkloadError(
            f"a Subset got {lengths[0]} inputs and {lengths[-1]} targets"
            if lengths[0] != lengths[-1]
            else f"a Subset got inputs of {sorted(set(lengths))} rows"
        )
    return lengths[0]


def _rows_of(given: Any, count: int) -> Indices:
    """Returns rows as whole numbers from 0 to ``count``."""
    rows = np.asarray(given)
    if rows.dtype == bool and rows.shape == (count,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise WorkloadError(
            "the rows of a Subset are a vector of whole numbers, or a mask of all "
            f"{count}; got {rows.dtype} of shape {rows.shape}"
        )
    if rows.size:
        # argmin and item take a fifth of the time of min, where there are few rows.
        least, most = rows.item(rows.argmin()), rows.item(rows.argmax())
        if least < 0 or most >= count:
            raise WorkloadError(
                f"the rows of a Subset are 0 to {count - 1}; got {least} to {most}"
            )
    return rows.astype(np.int64, copy=False)
