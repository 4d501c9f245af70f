"""Data of one client as rows: how many, and the batch of some of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
        return take_rows(self.x, rows), whole_numbers(take_rows(self.y, rows))

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts of integer labels, if the targets are a vector of them."""
        return count_labels(self.y, rows)


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
        """Rows as whole numbers; a mask of all rows becomes the rows that it marks.

        Raises:
            WorkloadError: they are not rows of these arrays.
        """
        object.__setattr__(self, "rows", _rows_of(self.rows, _rows_in(self)))

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        """The inputs and the targets of all its rows, copied out."""
        yield take_rows(self.x, self.rows)
        yield take_rows(self.y, self.rows)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these of its rows."""
        places = self.rows[rows]
        return take_rows(self.x, places), whole_numbers(take_rows(self.y, places))

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts of integer labels, if the targets are a vector of them."""
        return count_labels(self.y, self.rows[rows])


@dataclass(frozen=True)
class IndexedSamples:
    """Anything with ``len`` and ``[i]`` that yields (x, y): a map-style data set."""

    source: Any
    collate: Callable[[Sequence[Any]], tuple[Any, Any]]

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.source)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these rows, collated.

        Raises:
            WorkloadError: a sample is no pair.
        """
        items = [self.source[int(row)] for row in rows]
        for item in items:
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise WorkloadError(
                    f"a sample of the data set {type(self.source).__name__} is "
                    f"{_described(item)}; expected (x, y)"
                )
        x, y = self.collate(items)
        return x, whole_numbers(y)

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts of the ``targets`` that many data sets carry beside their samples."""
        return count_labels(getattr(self.source, "targets", None), rows)


def as_samples(data: Any, whose: str) -> Samples:
    """Rows of whatever a user's function returned.

    Of a pair, data frames of numbers become float32 arrays, and lists arrays.

    Raises:
        WorkloadError: neither a pair of arrays, nor a subset of some, nor a map-style
            data set; or empty; or a frame has words or missing values.
    """
    samples: Samples
    if isinstance(data, Subset):
        samples = data
    elif _is_pair(data):
        x = as_inputs(data[0], f"{whose} returned")
        y = as_targets(data[1], f"{whose} returned")
        samples = ArraySamples(x, y)
        _check_lengths(x, len(y), whose)
    elif problem := _problem(data):
        raise WorkloadError(f"{whose} returned {problem}")
    else:
        samples = IndexedSamples(data, stack_pairs)
    if not len(samples):
        raise WorkloadError(f"{whose} returned no samples")
    return samples


def _is_pair(data: Any) -> bool:
    """A tuple of two, or a list of two arrays; a list of pairs is a data set."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        return False
    return isinstance(data, tuple) or hasattr(data[0], "shape")


def _problem(data: Any) -> str:
    """Why something is no data set; empty if it may be one."""
    if isinstance(data, Mapping):
        return (
            f"{_described(data)}, which does not say what the targets are; expected "
            "(x, y), where x may be a dict of arrays"
        )
    if hasattr(data, "columns"):
        return (
            f"{_described(data)} alone, which does not say what the targets are; "
            "expected (x, y), such as (frame.drop(columns='label'), frame['label'])"
        )
    if hasattr(data, "shape") or isinstance(data, tuple):
        return f"{_described(data)}; expected (x, y)"
    if hasattr(data, "batch_size") and hasattr(data, "dataset"):
        return (
            f"{_described(data)}, whose batches are of its own choice; return the data "
            "set (loader.dataset), from which the platform draws batches "
            "(algorithm.client.batch)"
        )
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return ""
    return (
        f"{type(data).__name__}; expected (x, y), Subset(x, y, rows) or a data set "
        "with len() and [i]"
    )


def _described(data: Any) -> str:
    """What something is, in a few words."""
    if isinstance(data, Mapping):
        names = ", ".join(map(str, list(data)[:6]))
        return f"a {type(data).__name__} of {names or 'nothing'}"
    if isinstance(data, tuple | list):
        return f"a {type(data).__name__} of {len(data)}"
    return f"a {type(data).__name__}"


def as_inputs(data: Any, whose: str) -> Any:
    """Inputs as arrays; a data frame of numbers as float32 (N, F).

    Raises:
        WorkloadError: lists are ragged, or a frame holds what is no finite number.
    """
    if isinstance(data, Mapping) and not hasattr(data, "columns"):
        return {name: as_inputs(part, whose) for name, part in data.items()}
    if isinstance(data, tuple):
        return tuple(as_inputs(part, whose) for part in data)
    if hasattr(data, "columns"):
        return _of_frame(data, whose)
    return _as_array(data, whose)


def as_targets(data: Any, whose: str) -> Any:
    """Targets as an array; a data frame of one column as a vector.

    Raises:
        WorkloadError: they have no rows, or a frame holds what is no finite number.
    """
    if isinstance(data, Mapping) and not hasattr(data, "columns"):
        raise WorkloadError(f"{whose} {_described(data)} as targets; expected an array")
    if hasattr(data, "columns"):
        if len(data.columns) != 1:
            return _of_frame(data, whose)
        return _as_array(_column(data, 0), whose)
    found = _as_array(data, whose)
    if not hasattr(found, "__len__") or not getattr(found, "shape", (1,)):
        raise WorkloadError(f"{whose} targets without rows: {found!r}")
    return found


def _as_array(data: Any, whose: str) -> Any:
    """Lists and columns of data frames as arrays; arrays and tensors as they are."""
    if isinstance(data, np.ndarray):
        return data
    if isinstance(data, list):
        try:
            return np.asarray(data)
        except ValueError as error:
            raise WorkloadError(
                f"{whose} a ragged list: its items differ in length; pad them"
            ) from error
    if hasattr(data, "to_numpy"):
        return _of_column(data, whose, getattr(data, "name", None))
    return data


def _of_column(data: Any, whose: str, name: Any) -> Any:
    """A column of a data frame: whole numbers, numbers or words; none is missing."""
    found = np.asarray(data.to_numpy())
    where = f"{whose} a column" if name is None else f"{whose} a column {name!r}"
    if found.dtype == object:  # nullable numbers, decimals, categories, words
        missing = [
            i for i, value in enumerate(found) if value is None or value != value
        ]
        if missing:
            raise WorkloadError(f"{where} without a finite value in row {missing[0]}")
        if all(isinstance(value, str) for value in found):
            return found.astype(np.str_)
        try:
            numbers = found.astype(np.float64)
        except (TypeError, ValueError) as error:
            odd = next(value for value in found if not _is_number(value))
            raise WorkloadError(f"{where} that is not numeric: {odd!r}") from error
        whole = numbers.astype(np.int64)
        return whole if (whole == numbers).all() else numbers
    if found.dtype.kind == "f":
        odd_rows = np.flatnonzero(~np.isfinite(found))
        if len(odd_rows):
            raise WorkloadError(f"{where} without a finite value in row {odd_rows[0]}")
    return found


def _of_frame(frame: Any, whose: str) -> Any:
    """The columns of numbers of a data frame, (N, F)."""
    names = list(frame.columns)
    columns = []
    for place, name in enumerate(names):
        column = _of_column(_column(frame, place), whose, name)
        if column.dtype.kind not in "iufb":
            raise WorkloadError(
                f"{whose} a data frame whose column {name!r} is not numeric: "
                f"{column[0]!s}; inputs are numbers"
            )
        columns.append(column.astype(np.float32))
    if not columns:
        raise WorkloadError(f"{whose} a data frame without columns")
    return np.stack(columns, axis=1)


def _column(frame: Any, place: int) -> Any:
    """By its place: names may be there twice."""
    if hasattr(frame, "iloc"):
        return frame.iloc[:, place]
    return frame[frame.columns[place]]


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def whole_numbers(targets: Any) -> Any:
    """Whole numbers of any width, and truth values, as int64; others as they are."""
    if isinstance(targets, np.ndarray) and targets.dtype.kind in "iub":
        return targets.astype(np.int64, copy=False)
    return targets


def targets_of(data: Any) -> Any:
    """The targets of a pair or a subset; None of anything else."""
    if isinstance(data, Subset):
        return take_rows(data.y, data.rows)
    return data[1] if isinstance(data, tuple) and len(data) == 2 else None


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


def join_rows(parts: Sequence[Any]) -> Any:
    """The rows of several arrays, or of several dicts or tuples of arrays, in a row."""
    if isinstance(parts[0], Mapping):
        return {name: join_rows([part[name] for part in parts]) for name in parts[0]}
    if isinstance(parts[0], tuple):
        return tuple(join_rows(each) for each in zip(*parts, strict=True))
    return np.concatenate(parts)


def count_labels(targets: Any, rows: Indices) -> Counts | None:
    """How often each class is among the rows of integer targets."""
    if targets is None or not len(rows):
        return None
    chosen = np.asarray(targets)[rows]
    if chosen.dtype == bool:
        chosen = chosen.astype(np.int64)
    if (
        chosen.ndim != 1
        or not np.issubdtype(chosen.dtype, np.integer)
        or chosen.min() < 0
        or chosen.max() >= MOST_CLASSES
    ):
        return None
    return np.bincount(chosen)


def _check_lengths(x: Any, rows: int, whose: str) -> None:
    for part in arrays_of(x):
        if len(part) != rows:
            raise WorkloadError(
                f"{whose} returned {len(part)} inputs and {rows} targets"
            )


def arrays_of(x: Any) -> tuple[Any, ...]:
    """The arrays of an array, of a dict of them or of a tuple."""
    if isinstance(x, Mapping):
        return tuple(x.values())
    return x if isinstance(x, tuple) else (x,)


def _rows_in(subset: Subset) -> int:
    """How many rows the arrays of a subset have, all alike."""
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
    """Rows as whole numbers from 0 to ``count``."""
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
