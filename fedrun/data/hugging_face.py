"""A data set of Hugging Face ``datasets`` as samples, read one by one or all at once.

The package is not imported here: users load their data set with it themselves, and
decide what is downloaded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.errors import WorkloadError


@dataclass(frozen=True)
class HuggingFaceData:
    """A map-style data set of (x, y), for ``train_data`` and ``test_data``.

    Attributes:
        source: a ``datasets.Dataset`` that yields arrays.
        inputs: the column of the inputs; x is a dict where they are several.
        target: the column of the targets.
        transform: what is done to each x, such as scaling an image.
    """

    source: Any
    inputs: str | tuple[str, ...]
    target: str
    transform: Callable[[Any], Any] | None

    def __len__(self) -> int:
        """Returns the number of samples."""
        return len(self.source)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        """Returns one sample (x, y)."""
        item = self.source[row]
        if isinstance(self.inputs, str):
            x: Any = item[self.inputs]
        else:
            x = {name: item[name] for name in self.inputs}
        return x if self.transform is None else self.transform(x), item[self.target]

    @cached_property
    def targets(self) -> npt.NDArray[Any]:
        """All targets: labels are counted and shared out by them."""
        return np.asarray(self.source.select_columns([self.target])[:][self.target])

    def subset(self, rows: Any) -> "HuggingFaceData":
        """Returns these rows, such as a client's; nothing is copied."""
        chosen = self.source.select(np.asarray(rows).tolist())
        return HuggingFaceData(chosen, self.inputs, self.target, self.transform)

    def arrays(self) -> tuple[Any, npt.NDArray[Any]]:
        """Returns all samples as arrays, which clients can share by ``Subset``.

        Raises:
            WorkloadError: the inputs differ in shape.
        """
        found = [self[row][0] for row in range(len(self))]
        if not isinstance(self.inputs, str) and isinstance(found[0], Mapping):
            x: Any = {
                name: _stack([item[name] for item in found], name) for name in found[0]
            }
        else:
            x = _stack(found, str(self.inputs))
        return x, self.targets


def hugging_face(
    dataset: Any,
    *,
    inputs: str | Sequence[str],
    target: str,
    transform: Callable[[Any], Any] | None = None,
) -> HuggingFaceData:
    """Makes samples of one split of a Hugging Face data set.

    Args:
        dataset: a ``datasets.Dataset``; columns come out as NumPy arrays, images too.
        inputs: the column of the inputs, or several: x is then a dict.
        target: the column of the targets.
        transform: what is done to each x.

    Raises:
        WorkloadError: it is something else, lacks a column, or has no rows.
    """
    if isinstance(dataset, Mapping):
        raise WorkloadError(
            f"expected one split, got a dict of {', '.join(map(str, dataset))}; choose "
            "one, as in dataset['train']"
        )
    if not all(
        hasattr(dataset, name) for name in ("column_names", "select", "__len__")
    ):
        raise WorkloadError(
            f"expected a datasets.Dataset with len() and rows by number, got "
            f"{type(dataset).__name__}; load it without streaming=True"
        )
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for name in (*names, target):
        if name not in dataset.column_names:
            raise WorkloadError(
                f"the data set has no column {name!r}; it has "
                f"{', '.join(dataset.column_names)}"
            )
    if not len(dataset):
        raise WorkloadError("the data set has no rows")
    needed = dataset.select_columns(list(dict.fromkeys((*names, target))))
    return HuggingFaceData(
        needed.with_format("numpy"),
        inputs if isinstance(inputs, str) else names,
        target,
        transform,
    )


def _stack(items: Sequence[Any], name: str) -> npt.NDArray[Any]:
    shapes = {np.shape(item) for item in items}
    if len(shapes) > 1:
        raise WorkloadError(
            f"column {name!r} is ragged: its rows have shapes "
            f"{', '.join(map(str, sorted(shapes)[:4]))}; pad them with transform="
        )
    return np.stack(items)
