"""Area under the receiver operating characteristic, from a histogram of scores.

The area is the probability that a positive sample has a higher score than a negative
one, ties counted half (Hanley and McNeil, Radiology 143, 1982). Bins are as wide as
float32 is fine at that place, so no range of scores has to be known.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.errors import WorkloadError

BITS = 18  # of 32: sign, exponent, and 9 of the mantissa


class AUC:
    """The area under the curve of two classes.

    Scores of which the first 18 bits are equal (0.2 % of their value) count as ties:
    the result is off by half the share of pairs in one bin, at most. Take scores that
    are spread (logits, not probabilities near 1).
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        self._counts = np.zeros((2, 1 << BITS), np.int64)

    def update(self, output: Any, target: Any) -> None:
        """Takes a batch.

        Args:
            output: (B,) or (B, 1) scores, or (B, 2) logits of which the difference is
                the score.
            target: (B,) classes 0 and 1.

        Raises:
            WorkloadError: there are other classes, or scores that are not numbers.
        """
        scores, true = np.asarray(output, np.float32), np.asarray(target).reshape(-1)
        if scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1] - scores[:, 0]
        scores = scores.reshape(-1)
        if scores.shape != true.shape or not np.isin(true, (0, 1)).all():
            raise WorkloadError(
                "AUC takes a score for each sample and targets 0 and 1; got outputs of "
                f"shape {np.shape(output)} and targets of shape {np.shape(target)}"
            )
        if np.isnan(scores).any():
            raise WorkloadError("AUC takes numbers as scores; some are NaN")
        np.add.at(self._counts, (true.astype(int), _bins(scores)), 1)

    def compute(self) -> float:
        """The area over all samples; NaN where one of the classes has none."""
        negative, positive = self._counts
        pairs = float(negative.sum()) * float(positive.sum())
        if not pairs:
            return float("nan")
        below = np.cumsum(negative) - negative
        return float((positive * (below + negative / 2)).sum() / pairs)


def _bins(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Higher scores have higher bins; -0.0 lies with 0.0."""
    bits = (scores + np.float32(0)).view(np.int32).astype(np.int64)
    ordered = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits) + (1 << 31)
    return ordered >> (32 - BITS)
