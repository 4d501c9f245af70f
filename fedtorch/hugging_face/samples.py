"""Data of a client as batches for a Hugging Face model: dicts of arrays by name.

No package of Hugging Face is imported: a data set is anything with ``len`` and ``[i]``
whose rows are mappings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.errors import WorkloadError
from fedcore.labels import count_labels
from fedcore.samples import ReadAhead, Samples, Subset, as_samples
from fedcore.typing import Counts, Indices
from fedcore.user_code import user_code

Collator = Callable[[Sequence[Any]], Mapping[str, Any]]
INPUTS = (
    "input_ids",
    "inputs_embeds",
    "pixel_values",
    "input_values",
    "input_features",
)
"""What the models of transformers call their main input."""
LABELS, OTHER_NAMES = "labels", ("label", "label_ids")
NO_LABEL = -100  # as torch's cross-entropy ignores it


@dataclass(frozen=True)
class Batches:
    """Rows that a collator makes batches of."""

    source: Any
    collator: Collator
    ahead: ReadAhead | None = None
    """Reads batches in other processes; None: they are read in this one."""

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self.source)

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        """Returns the batch of these rows, and its labels, or else its inputs."""
        with user_code(f"the data set {type(self.source).__name__}"):
            items = [self.source[int(row)] for row in rows]
        with user_code("collator"):
            x = dict(self.collator(items))
        return x, _targets(x)

    def label_counts(self, rows: Indices) -> Counts | None:
        """Returns how often each class is among these rows; None if there are none."""
        return None if self._labels is None else count_labels(self._labels, rows)

    @cached_property
    def _labels(self) -> npt.NDArray[Any] | None:
        """All labels, if they can be known without reading every row.

        None as well where a row has none, or one for each token.
        """
        first = self.source[0]
        name = next((each for each in (LABELS, "label") if each in first), "")
        if not name or np.ndim(first[name]):
            return None
        if hasattr(self.source, "select_columns"):  # no image is read for its label
            return np.asarray(self.source.select_columns([name])[:][name])
        if not isinstance(self.source, list | tuple):
            return None
        return np.asarray([row[name] for row in self.source])


def read_samples(
    data: Any,
    whose: str,
    collator: Collator | None,
    ahead: ReadAhead | None = None,
) -> Samples:
    """Returns the rows of what a user's function returned.

    Args:
        data: token ids of shape (N, S); a dict of arrays by name; a pair of one of
            these and labels; a ``Subset`` of such; or a data set whose rows are
            mappings, such as a ``datasets.Dataset``.
        whose: the function, for messages.
        collator: makes a batch of a list of rows of a data set; None: :func:`pad`.
        ahead: reads batches of a data set in other processes.

    Raises:
        WorkloadError: it is something else, has no samples, or lacks the inputs.
    """
    if isinstance(data, Subset):
        return Subset(_name_inputs(data.x, data.y, whose), data.y, data.rows)
    if isinstance(data, tuple) and len(data) == 2:
        return as_samples((_name_inputs(*data, whose), data[1]), whose)
    if isinstance(data, Mapping) and not hasattr(data, "columns"):
        x = _name_inputs(data, None, whose)
        return as_samples((x, _targets(x)), whose)
    if hasattr(data, "dtype"):  # a datasets.Dataset has a shape, too
        return as_samples(({"input_ids": data}, data), whose)
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise WorkloadError(
            f"{whose} returned {type(data).__name__}; expected token ids, a dict of "
            "arrays, or a data set with len() and rows by number (load it without "
            "streaming=True)"
        )
    if not len(data):
        raise WorkloadError(f"{whose} returned no samples")
    row = data[0]
    if not isinstance(row, Mapping):
        raise WorkloadError(
            f"{whose} returned a data set whose rows are {type(row).__name__}; "
            "expected mappings by name, with input_ids"
        )
    if collator is None:
        _require_inputs(row, whose)
    return Batches(data, collator or pad, ahead)


def pad(items: Sequence[Mapping[str, Any]]) -> dict[str, npt.NDArray[Any]]:
    """Makes a batch of rows, whose numbers are padded on the right to one length.

    Padding is 0, and -100 (no label) for labels. Texts are left out. Rows of several
    lengths get an attention mask, if they have none.
    """
    names = [name for name, value in items[0].items() if _is_number(value)]
    batch = {_own_name(name): _together(name, items) for name in names}
    lengths = [len(item["input_ids"]) for item in items if "input_ids" in item]
    if len(set(lengths)) > 1 and "attention_mask" not in batch:
        mask = np.arange(max(lengths)) < np.asarray(lengths)[:, np.newaxis]
        batch["attention_mask"] = mask.astype(np.int64)
    return batch


def _together(name: str, items: Sequence[Mapping[str, Any]]) -> npt.NDArray[Any]:
    if any(name not in item for item in items):
        raise WorkloadError(
            f"column {name!r} is in some rows and not in others; make them alike, or "
            "give a collator="
        )
    rows = [np.asarray(item[name]) for item in items]
    if len({row.shape for row in rows}) == 1:
        return np.stack(rows)
    if {row.ndim for row in rows} != {1}:
        shapes = sorted({str(row.shape) for row in rows})
        raise WorkloadError(
            f"column {name!r} has rows of shapes {', '.join(shapes[:4])}; make them "
            "alike, or give a collator="
        )
    is_label = _own_name(name) == LABELS
    kinds = [row.dtype for row in rows]
    dtype = np.result_type(*kinds, np.int16) if is_label else np.result_type(*kinds)
    fill = NO_LABEL if is_label else 0  # which no unsigned number holds
    whole = np.full((len(rows), max(map(len, rows))), fill, dtype)
    for place, row in enumerate(rows):
        whole[place, : len(row)] = row
    return whole


def _is_number(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "biuf"


def _own_name(name: str) -> str:
    return LABELS if name in OTHER_NAMES else name


def _name_inputs(x: Any, y: Any, whose: str) -> dict[str, Any]:
    """Returns inputs by name, with the labels among them."""
    named = dict(x) if isinstance(x, Mapping) else {"input_ids": x}
    named = {_own_name(name): part for name, part in named.items()}
    _require_inputs(named, whose)
    return named if y is None else {**named, LABELS: y}


def _require_inputs(names: Mapping[str, Any], whose: str) -> None:
    if not any(name in names for name in INPUTS):
        raise WorkloadError(
            f"{whose} returned data with {', '.join(map(str, names)) or 'nothing'} and "
            f"without input_ids, which a tokenizer makes (or {', '.join(INPUTS[2:])})"
        )


def _targets(x: Mapping[str, Any]) -> Any:
    """Returns the labels of a batch; a language model's inputs are its labels."""
    found = x.get(LABELS)
    return found if found is not None else next(x[n] for n in INPUTS if n in x)
