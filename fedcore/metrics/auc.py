"""Area under the receiver operating characteristic, from counts of scores.

The area is the probability that a positive sample has a higher score than a negative
one, ties counted half (Hanley and McNeil, Radiology 143, 1982). Equal scores are
counted together. Where there are too many different ones, the last bits of all scores
are dropped until there are fewer: fine where scores are dense, and of a bounded size.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.errors import WorkloadError
from fedcore.metrics.arrays import as_values

MOST_SCORES = 1 << 20  # different scores, of 24 bytes each


class AUC:
    """The area under the curve of two classes.

    It is exact for up to a million different scores. With more of them, scores whose
    first bits are equal count as ties, and the result is off by at most half the share
    of pairs that are such ties.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        self._keys = np.zeros(0, np.int64)
        self._counts = np.zeros((2, 0), np.int64)  # negative and positive, by key
        self._dropped = 0  # bits of the keys
        self._new: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]] = []
        self._waiting = 0  # samples that are not counted yet
        self._unknown = False

    def update(self, output: Any, target: Any) -> None:
        """Takes a batch. One score that is NaN makes the area NaN.

        Args:
            output: (B,) or (B, 1) scores, or (B, 2) logits, whose difference is the
                score.
            target: (B,) classes 0 and 1.

        Raises:
            WorkloadError: there are other classes, or no score for each sample.
        """
        scores = as_values("AUC", output).astype(np.float64)
        true = as_values("AUC", target).reshape(-1)
        if scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1] - scores[:, 0]
        if scores.size != len(true) or not np.isin(true, (0, 1)).all():
            raise WorkloadError(
                "AUC takes a score for each sample and targets 0 and 1; got outputs of "
                f"shape {np.shape(output)} and targets of shape {np.shape(target)}"
            )
        self._unknown |= bool(np.isnan(scores).any())
        self._new.append((_keys(scores.reshape(-1)) >> self._dropped, true == 1))
        self._waiting += len(true)
        if self._waiting > max(MOST_SCORES, len(self._keys)):
            self._count()

    def compute(self) -> float:
        """Returns the area over all samples; NaN where one of the classes has none."""
        self._count()
        negative, positive = self._counts
        pairs = float(negative.sum()) * float(positive.sum())
        if not pairs or self._unknown:
            return float("nan")
        below = np.cumsum(negative) - negative
        return float((positive * (below + negative / 2)).sum() / pairs)

    def _count(self) -> None:
        """Counts the new scores, and drops bits while there are too many."""
        if not self._new:
            return
        keys, positive = map(np.concatenate, zip(*self._new, strict=True))
        self._new, self._waiting = [], 0
        counts = np.stack([~positive, positive]).astype(np.int64)
        self._merge(
            np.concatenate([self._keys, keys]),
            np.concatenate([self._counts, counts], axis=1),
        )
        while len(self._keys) > MOST_SCORES:
            self._dropped += 1
            self._merge(self._keys >> 1, self._counts)

    def _merge(
        self, keys: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> None:
        """Sums the counts of equal keys: one column a key, in ascending order."""
        self._keys, places = np.unique(keys, return_inverse=True)
        self._counts = np.zeros((2, len(self._keys)), np.int64)
        for merged, each in zip(self._counts, counts, strict=True):
            np.add.at(merged, places, each)


def _keys(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Returns keys in the order of the scores; -0.0 has that of 0.0."""
    bits = (scores + 0.0).view(np.int64)
    keys: npt.NDArray[np.int64] = np.where(bits < 0, -(bits & (2**63 - 1)), bits)
    return keys
