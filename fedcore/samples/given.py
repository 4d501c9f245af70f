"""Reads the samples that a data function of the user returns."""

from collections.abc import Mapping
from typing import Any

from fedcore.errors import WorkloadError
from fedcore.samples.base import (
    ArraySamples,
    Collate,
    IndexedSamples,
    Samples,
    describe,
)
from fedcore.samples.frames import as_array, column_at, frame_array
from fedcore.samples.rows import arrays_of, take_rows
from fedcore.samples.subset import Subset


def as_samples(data: Any, whose: str, collate: Collate | None = None) -> Samples:
    """Returns the samples that a user's function returned.

    In a pair, data frames of numbers become float32 arrays, and lists arrays.

    Args:
        data: (x, y), a subset of arrays, or a map-style data set.
        whose: the function, for messages.
        collate: makes the batches, of a list of samples; None: samples are stacked.

    Raises:
        WorkloadError: it is none of these; it has no samples; or a frame has words or
            missing values.
    """
    samples: Samples
    if isinstance(data, Subset):
        samples = data
    elif _is_pair(data):
        x = _inputs(data[0], f"{whose} returned")
        y = _targets(data[1], f"{whose} returned")
        samples = ArraySamples(x, y)
        _check_lengths(x, len(y), whose)
    elif problem := _problem(data):
        raise WorkloadError(f"{whose} returned {problem}")
    else:
        samples = IndexedSamples(data, collate)
    if collate is not None and isinstance(samples, ArraySamples | Subset):
        samples = IndexedSamples(_Pairs(samples), collate)
    if not len(samples):
        raise WorkloadError(f"{whose} returned no samples")
    return samples


class _Pairs:
    """The rows of arrays one by one, as a map-style data set."""

    def __init__(self, samples: ArraySamples | Subset) -> None:
        self._samples = samples
        y = samples.y
        self.targets = take_rows(y, samples.rows) if isinstance(samples, Subset) else y

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        x, y = self._samples.x, self._samples.y
        place: Any = row
        if isinstance(self._samples, Subset):
            place = self._samples.rows[row]
        return take_rows(x, place), take_rows(y, place)


def targets_of(data: Any) -> Any:
    """Returns the targets of a pair or a subset; None for anything else."""
    if isinstance(data, Subset):
        return take_rows(data.y, data.rows)
    return data[1] if isinstance(data, tuple) and len(data) == 2 else None


def _is_pair(data: Any) -> bool:
    """Returns whether it is a tuple of two, or a list of two arrays.

    Any other list of two is a data set of two samples.
    """
    if not isinstance(data, tuple | list) or len(data) != 2:
        return False
    return isinstance(data, tuple) or hasattr(data[0], "shape")


def _problem(data: Any) -> str:
    """Says why something is no data set; empty if it may be one."""
    if isinstance(data, Mapping):
        return (
            f"{describe(data)}, which does not say what the targets are; expected "
            "(x, y), where x may be a dict of arrays"
        )
    if hasattr(data, "columns"):
        return (
            f"{describe(data)} alone, which does not say what the targets are; "
            "expected (x, y), such as (frame.drop(columns='label'), frame['label'])"
        )
    if hasattr(data, "shape") or isinstance(data, tuple):
        return f"{describe(data)}; expected (x, y)"
    if hasattr(data, "batch_size") and hasattr(data, "dataset"):
        return (
            f"{describe(data)}, whose batches are of its own choice; return the data "
            "set (loader.dataset), from which the platform draws batches "
            "(algorithm.client.batch); its collate_fn is the workload's collate="
        )
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return ""
    return (
        f"{type(data).__name__}; expected (x, y), Subset(x, y, rows) or a data set "
        "with len() and [i]"
    )


def _inputs(data: Any, whose: str) -> Any:
    """Inputs as arrays; a data frame of numbers as float32 (N, F)."""
    if isinstance(data, Mapping) and not hasattr(data, "columns"):
        return {name: _inputs(part, whose) for name, part in data.items()}
    if isinstance(data, tuple):
        return tuple(_inputs(part, whose) for part in data)
    return (
        frame_array(data, whose) if hasattr(data, "columns") else as_array(data, whose)
    )


def _targets(data: Any, whose: str) -> Any:
    """Targets as an array; a data frame of one column as a vector."""
    if isinstance(data, Mapping) and not hasattr(data, "columns"):
        raise WorkloadError(f"{whose} {describe(data)} as targets; expected an array")
    if hasattr(data, "columns"):
        if len(data.columns) != 1:
            return frame_array(data, whose)
        return as_array(column_at(data, 0), whose)
    found = as_array(data, whose)
    if not hasattr(found, "__len__") or not getattr(found, "shape", (1,)):
        raise WorkloadError(f"{whose} targets without rows: {found!r}")
    return found


def _check_lengths(x: Any, rows: int, whose: str) -> None:
    for part in arrays_of(x):
        if isinstance(part, Mapping | tuple):
            _check_lengths(part, rows, whose)
        elif len(part) != rows:
            raise WorkloadError(
                f"{whose} returned {len(part)} inputs and {rows} targets"
            )
