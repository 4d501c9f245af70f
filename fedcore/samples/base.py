"""The contract of a client's data, and its usual forms: arrays, or item by item."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fedcore.errors import UserCodeError
from fedcore.labels import count_labels
from fedcore.samples.rows import (
    as_tuples,
    form,
    stack_pairs,
    take_rows,
    whole_numbers,
)
from fedcore.typing import Counts, Indices
from fedcore.user_code import user_code


class Samples(Protocol):
    """The contract of a data set for training."""

    def __len__(self) -> int:
        """Returns the number of samples."""

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these rows."""

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts each class among these rows; None where there are no labels."""


@dataclass(frozen=True)
class ArraySamples:
    """Arrays whose first axis is the samples; inputs may be a dict or tuple of them."""

    x: Any
    y: Any

    def __len__(self) -> int:
        """Returns the number of samples."""
        return len(self.y)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these rows."""
        return take_rows(self.x, rows), whole_numbers(take_rows(self.y, rows))

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts of integer labels, if the targets are a vector of them."""
        return count_labels(self.y, rows)


Collate = Callable[[list[Any]], tuple[Any, Any]]
"""Makes a batch, inputs and targets, of a list of samples."""


@dataclass(frozen=True)
class IndexedSamples:
    """Anything with ``len`` and ``[i]``: a map-style data set.

    A sample is read each time that a batch uses it, and never kept: a data set may be
    larger than the memory, and may change its samples at random.
    """

    source: Any
    collate: Collate | None = None
    """The user's own; None: samples are pairs (x, y) of one shape, to be stacked."""
    stack: Collate = stack_pairs
    """Makes a batch (x, y) of a list of pairs (x, y), where there is no collate."""
    ahead: "ReadAhead | None" = None
    """Reads batches in other processes; None: they are read in this one."""

    def __len__(self) -> int:
        """Returns the number of samples."""
        return len(self.source)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Inputs and targets of these rows.

        Raises:
            UserCodeError: the data set or ``collate`` raised; samples that are to be
                stacked are no pairs, or differ in shape; or ``collate`` returned no
                pair.
        """
        name = type(self.source).__name__
        with user_code(f"the data set {name}"):
            items = [self.source[int(row)] for row in rows]
        if self.collate is None:
            x, y = self._stack(items, name)
        else:
            with user_code("collate"):
                batch = self.collate(items)
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise UserCodeError(
                    f"collate returned {describe(batch)}; expected (x, y)"
                )
            x, y = batch
        return as_tuples(x), whole_numbers(as_tuples(y))

    def _stack(self, items: list[Any], name: str) -> tuple[Any, Any]:
        for item in items:
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise UserCodeError(
                    f"a sample of the data set {name} is {describe(item)}; expected "
                    "(x, y), or a collate= that makes (x, y) of a list of samples"
                )
        try:
            return self.stack(items)
        except Exception as error:
            forms = dict.fromkeys(f"x {form(x)}, y {form(y)}" for x, y in items)
            if len(forms) > 1:
                first, second, *_ = forms
                raise UserCodeError(
                    f"samples of the data set {name} differ in shape ({first}; "
                    f"{second}); give collate=, which makes a batch (x, y) of a list "
                    "of samples, such as by padding them"
                ) from None
            raise UserCodeError(
                f"samples of the data set {name} cannot be stacked: {error}; give "
                "collate=, which makes a batch (x, y) of a list of samples"
            ) from error

    def label_counts(self, rows: Indices) -> Counts | None:
        """Counts of the ``targets`` that many data sets carry beside their samples."""
        return count_labels(getattr(self.source, "targets", None), rows)


Wanted = tuple[Samples, Indices]
"""A batch: rows, and whose they are."""
ReadAhead = Callable[[Sequence[Wanted]], Iterator[tuple[Any, Any]]]
"""Yields batches in their order, and reads those that follow meanwhile."""


def describe(data: Any) -> str:
    """Describes a value in a few words."""
    if isinstance(data, Mapping):
        names = ", ".join(map(str, list(data)[:6]))
        return f"a {type(data).__name__} of {names or 'nothing'}"
    if isinstance(data, tuple | list):
        return f"a {type(data).__name__} of {len(data)}"
    return f"a {type(data).__name__}"
