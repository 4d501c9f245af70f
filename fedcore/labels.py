"""Label counts: how often each class is among samples, and how alike they are.

Counts are an int64 array (C,) from the client to the reports. They become bytes in the
messages of the wire, in the journal and on a client's disk alone.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.typing import Counts, Indices

LabelSums = npt.NDArray[np.float64]  # Σ weight * counts
MOST_CLASSES = 65_536  # larger integers are no labels; the server would refuse them


def count_labels(targets: Any, rows: Indices) -> Counts | None:
    """Counts each class among the rows of integer targets."""
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


def sum_counts(one_C: Counts, other_C: Counts) -> Counts:
    """Returns counts of both together; the shorter one lacks the last classes."""
    longer_C, shorter_C = sorted((one_C, other_C), key=len, reverse=True)
    total_C = longer_C.copy()
    total_C[: len(shorter_C)] += shorter_C
    return total_C


def counts_list(counts_C: Counts | None) -> list[int] | None:
    """Counts as plain numbers, for JSON."""
    return None if counts_C is None else counts_C.tolist()


def counts_array(counts: Sequence[int] | None) -> Counts | None:
    """Counts from the plain numbers of :func:`counts_list`.

    Raises:
        TypeError, ValueError: they are no such numbers.
    """
    if counts is None:
        return None
    read_C = np.array(counts) if len(counts) else np.zeros(0, np.int64)
    if read_C.dtype != np.int64 or read_C.ndim != 1 or min(counts, default=0) < 0:
        raise ValueError("expected label counts, whole numbers of at least 0")
    return read_C


def similarity(counts_C: Counts | None, labels_C: LabelSums) -> float:
    """Returns the Bhattacharyya coefficient Σ √(p·q) of two label distributions.

    1 exactly if the distributions are equal, 0 if they share no class; 1 where one
    of them is empty or unknown.
    """
    if counts_C is None:
        return 1.0
    total = float(np.add.reduce(counts_C))  # np.sum looks at its arguments for longer
    total_global = float(np.add.reduce(labels_C))
    if total == 0 or total_global == 0:
        return 1.0
    shared = min(len(counts_C), len(labels_C))
    product = counts_C[:shared] * labels_C[:shared]
    both = float(np.add.reduce(np.sqrt(product)))
    return min(1.0, both / math.sqrt(total * total_global))


def add_labels(
    labels_C: LabelSums, counts_C: Counts | None, weight: float
) -> LabelSums:
    """Returns ``labels + weight * counts``; grows where a new class appears."""
    if counts_C is None:
        return labels_C
    missing = max(0, len(counts_C) - len(labels_C))
    labels_C = np.pad(labels_C, (0, missing)) if missing else labels_C
    labels_C[: len(counts_C)] += weight * counts_C
    return labels_C
