"""The contract of a way to the gradients of many models."""

from typing import Any, Protocol

from fedtorch.stacked.batch import Batch
from fedtorch.stacked.rows import Rows


class Way(Protocol):
    """Computes losses, and writes gradients into ``rows.g_ND``."""

    words: str
    """In words, for the log."""

    per_sample: float
    """Bytes that a step takes for each sample; 0: it takes all models at once."""

    def step(self, rows: Rows, x: Any, y: Any, batch: Batch) -> Any:
        """The losses (N,), in NumPy or torch. x and y hold tensors (N, B, ...)."""
