"""Rows of an array, or of each array in a dict or tuple."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedcore.arrays import array_namespace, is_numpy
from fedcore.errors import NotStackableError
from fedcore.typing import Indices


def take_rows(data: Any, rows: Indices) -> Any:
    """Returns the rows of an array, or of each array in a dict or tuple."""
    if isinstance(data, Mapping):
        return {name: take_rows(part, rows) for name, part in data.items()}
    if isinstance(data, tuple):
        return tuple(take_rows(part, rows) for part in data)
    return data[rows]


def join_rows(parts: Sequence[Any]) -> Any:
    """Joins arrays, or dicts or tuples of arrays, along their first axis."""
    if isinstance(parts[0], Mapping):
        return {name: join_rows([part[name] for part in parts]) for name in parts[0]}
    if isinstance(parts[0], tuple):
        return tuple(join_rows(each) for each in zip(*parts, strict=True))
    return np.concatenate(parts)


def arrays_of(data: Any) -> tuple[Any, ...]:
    """Returns the arrays of an array, of a dict of arrays or of a tuple of arrays."""
    if isinstance(data, Mapping):
        return tuple(data.values())
    return data if isinstance(data, tuple) else (data,)


def stack_pairs(items: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Stacks the inputs of pairs (x, y), and their targets."""
    inputs, targets = zip(*items, strict=True)
    return stack(inputs), np.asarray(targets)


def stack(parts: Sequence[Any]) -> Any:
    """Stacks arrays, or dicts or tuples of arrays, along a new first axis."""
    first = parts[0]
    if isinstance(first, Mapping):
        return {name: stack([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(stack(each) for each in zip(*parts, strict=True))
    if len(parts) == 1 and hasattr(first, "shape") and first.shape:
        return first[None]
    if hasattr(first, "detach"):  # of torch
        return array_namespace(first).stack(parts)
    return np.stack(parts)


def as_tuples(data: Any) -> Any:
    """Lists of arrays as tuples, in dicts and tuples as well; all else unchanged."""
    if isinstance(data, Mapping) and type(data) is dict:
        return {name: as_tuples(part) for name, part in data.items()}
    if type(data) is tuple or (
        isinstance(data, list) and data and hasattr(data[0], "shape")
    ):
        return tuple(map(as_tuples, data))
    return data


def form(data: Any) -> Any:
    """Returns the shape of an array, or those of a dict, tuple or list of arrays."""
    if isinstance(data, Mapping):
        return {name: form(part) for name, part in data.items()}
    if isinstance(data, tuple | list) and any(hasattr(part, "shape") for part in data):
        return tuple(map(form, data))
    try:
        return tuple(np.shape(data))
    except ValueError:
        return "ragged"


def leaves(data: Any) -> Iterator[Any]:
    """Yields what a tree of dicts, tuples and lists holds, from left to right."""
    if isinstance(data, Mapping):
        data = tuple(data.values())
    if type(data) in (tuple, list):
        for part in data:
            yield from leaves(part)
    else:
        yield data


def require_stackable(batch: Any, samples: int) -> None:
    """Checks that batches like this one, of several clients, can be stacked.

    Args:
        batch: inputs and targets.
        samples: of the batch.

    Raises:
        NotStackableError: they hold something else than arrays with a row for each
            sample.
    """
    for part in leaves(batch):
        is_array = is_numpy(part) or hasattr(part, "detach")
        shape = tuple(part.shape) if is_array else ()
        if shape[:1] != (samples,):
            what = f"an array of shape {shape}" if is_array else type(part).__name__
            raise NotStackableError(
                f"a batch of {samples} samples holds {what}, which has no row for each "
                "of them (simulate.engine.kind: exact trains clients one by one)"
            )


def whole_numbers(targets: Any) -> Any:
    """Returns whole numbers and truth values as int64; others unchanged."""
    if isinstance(targets, np.ndarray) and targets.dtype.kind in "iub":
        return targets.astype(np.int64, copy=False)
    return targets
