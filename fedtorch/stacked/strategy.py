"""The contract of a way to compute the gradients of many models."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch

from fedtorch.stacked.batch import Batch
from fedtorch.stacked.rows import Rows


class Strategy(Protocol):
    """Computes losses, and writes gradients into ``rows.g_ND``."""

    words: str
    """In words, for the log."""

    overhead: int
    """How many times a cache's bytes it is worth to fill with one step."""

    @property
    def per_sample(self) -> Mapping[torch.Size, float] | None:
        """Bytes that a step takes for each sample, by the shape of a sample.

        A step adds the shape of its samples. None: a step takes all models at once.
        """

    def step(self, rows: Rows, x: Any, y: Any, batch: Batch) -> Any:
        """The losses (N,), in NumPy or torch. x and y hold tensors (N, B, ...)."""
