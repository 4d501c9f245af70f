"""Accuracy, precision, recall and F1 from counts of confused classes.

Equal to scikit-learn's ``accuracy_score``, ``precision_score``, ``recall_score`` and
``f1_score`` with ``zero_division=0``, on all batches together.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedcore.errors import WorkloadError
from fedcore.metrics.arrays import as_values

Ratios = npt.NDArray[np.float64]
MOST_CLASSES = 4096


class Confusion:
    """Counts how often each class (rows) was taken for each class (columns)."""

    def __init__(self, threshold: float = 0.0) -> None:
        """Starts without samples.

        Args:
            threshold: where the output is one score, a score above it is class 1.
        """
        self._threshold = threshold
        self.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        self.counts = np.zeros((0, 0), np.int64)
        self._unknown = False

    def update(self, output: Any, target: Any) -> None:
        """Takes a batch. One output that is NaN makes the metric NaN.

        Args:
            output: (B, C) a score for each class, or (B,) or (B, 1) one score.
            target: (B,) whole numbers, the classes.

        Raises:
            WorkloadError: the targets are no classes, or not one for each output.
        """
        name = type(self).__name__
        true = as_values(name, target).reshape(-1)
        scores = np.atleast_1d(as_values(name, output))
        if not scores.shape[-1] and len(scores):
            raise WorkloadError(f"{name} takes scores; got shape {scores.shape}")
        said = predict_classes(scores, self._threshold)
        if said.shape != true.shape:
            raise WorkloadError(
                f"outputs for {len(said)} samples, and targets for {len(true)}"
            )
        if not len(true):
            return
        self._unknown |= bool(np.isnan(scores).any())
        most = int(max(np.nan_to_num(true).max(), said.max())) + 1
        whole = np.isfinite(true) & (true >= 0) & (true == np.floor(true))
        if most > MOST_CLASSES or not whole.all():
            raise WorkloadError(
                f"targets are classes, whole numbers from 0 to {MOST_CLASSES - 1}; "
                f"found {true.min()} to {true.max()}"
            )
        wider = max(0, most - len(self.counts))
        self.counts = np.pad(self.counts, (0, wider))
        np.add.at(self.counts, (true.astype(int), said), 1)


def predict_classes(
    output: npt.NDArray[Any], threshold: float
) -> npt.NDArray[np.int64]:
    """Returns the class of each sample, (B,)."""
    if output.ndim == 1 or output.shape[-1] == 1:
        return (output.reshape(-1) > threshold).astype(np.int64)
    classes: npt.NDArray[np.int64] = output.argmax(-1).reshape(-1).astype(np.int64)
    return classes


class Accuracy(Confusion):
    """The share of samples whose class was predicted correctly."""

    def compute(self) -> float:
        """Returns the share over all samples; NaN if there were none."""
        total = self.counts.sum()
        if not total or self._unknown:
            return float("nan")
        return float(np.trace(self.counts) / total)


class _OfClasses(Confusion, ABC):
    """A ratio for each class, and a mean of them."""

    def __init__(
        self,
        average: Literal["macro", "micro", "weighted", "binary"] = "macro",
        threshold: float = 0.0,
    ) -> None:
        """Chooses how the ratios of the classes become one.

        Args:
            average: ``macro``, the mean over classes; ``micro``, the ratio over all
                samples; ``weighted``, the mean weighted by the samples of each class;
                or ``binary``, the ratio of class 1 alone.
            threshold: where the output is one score, a score above it is class 1.

        Raises:
            WorkloadError: there is no such average.
        """
        known = ("macro", "micro", "weighted", "binary")
        if average not in known:
            raise WorkloadError(f"no average {average!r}; there are {', '.join(known)}")
        self._average = average
        super().__init__(threshold)

    def compute(self) -> float:
        """Returns the ratio over all samples; NaN if there were none."""
        hits, said = np.diag(self.counts), self.counts.sum(0)
        true = self.counts.sum(1)
        if not true.sum() or self._unknown:
            return float("nan")
        if self._average == "micro":
            hits, said, true = (part.sum(keepdims=True) for part in (hits, said, true))
        met = (said + true) > 0
        ratios = self._ratios(hits[met], said[met], true[met])
        match self._average:
            case "binary":
                return float(ratios[met.nonzero()[0] == 1].sum())
            case "weighted":
                return float(np.average(ratios, weights=true[met]))
            case _:
                return float(ratios.mean())

    @abstractmethod
    def _ratios(self, hits: Ratios, said: Ratios, true: Ratios) -> Ratios:
        """Returns the ratio of each class, (C,).

        Args:
            hits: the number of samples of each class that were predicted to be of it.
            said: the number of samples that were predicted to be of each class.
            true: the number of samples of each class.
        """


class Precision(_OfClasses):
    """Of the samples predicted to be of a class, the share that is of it."""

    def _ratios(self, hits: Ratios, said: Ratios, true: Ratios) -> Ratios:
        return hits / np.maximum(said, 1)


class Recall(_OfClasses):
    """Of the samples of a class, the share predicted to be of it."""

    def _ratios(self, hits: Ratios, said: Ratios, true: Ratios) -> Ratios:
        return hits / np.maximum(true, 1)


class RecallByClass(Confusion):
    """The recall of each class, as ``recall_0``, ``recall_1`` and so on."""

    def compute(self) -> dict[str, float]:
        """Returns the recall of each class with samples; NaN if an output was NaN."""
        true = self.counts.sum(1)
        return {
            f"recall_{label}": float("nan")
            if self._unknown
            else float(self.counts[label, label] / true[label])
            for label in np.flatnonzero(true).tolist()
        }


class F1(_OfClasses):
    """The harmonic mean of precision and recall."""

    def _ratios(self, hits: Ratios, said: Ratios, true: Ratios) -> Ratios:
        return 2 * hits / np.maximum(said + true, 1)
