"""The mean over samples of a function of each batch."""

import math
from collections.abc import Callable, Mapping
from typing import Any


class Mean:
    """The mean of ``function(output, target)``, weighted by the samples of each batch.

    It is right for a function that is itself a mean over samples (accuracy, squared
    error, a loss), and wrong for AUC, F1, recall or a perplexity.

    Args:
        function: of the outputs and the targets of a batch; returns a number.
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function
        self.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        self._sum, self._count = 0.0, 0

    def update(self, output: Any, target: Any) -> None:
        """Takes the outputs for a batch, and their targets, a row for each sample."""
        count = _rows(target)
        self._sum += count * float(self._function(output, target))
        self._count += count

    def compute(self) -> float:
        """Returns the mean over all samples; NaN if there were none."""
        return self._sum / self._count if self._count else math.nan


def _rows(target: Any) -> int:
    while isinstance(target, Mapping | tuple):
        target = next(iter(target.values() if isinstance(target, Mapping) else target))
    return len(target)
