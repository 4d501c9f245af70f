"""The batches of many models, and which of their rows count."""

from typing import Any

import numpy as np
import torch

from fedcore.typing import Indices


class Batch:
    """N batches of B rows, of which the first ``sizes_N[i]`` count."""

    def __init__(self, sizes_N: Indices, width: int, device: torch.device) -> None:
        self.sizes_N, self.width, self.device = sizes_N, width, device
        self.count = len(sizes_N)
        sizes = sizes_N.tolist()
        self.ragged = min(sizes) < width
        if min(sizes) < 1 or max(sizes) > width:
            raise ValueError(
                f"sizes from {min(sizes)} to {max(sizes)}, expected 1 to {width}"
            )
        self._counts_NB: Any = None

    def part(self, rows: slice) -> "Batch":
        """The batches of some of the models."""
        if rows.start == 0 and rows.stop >= self.count:
            return self
        return Batch(self.sizes_N[rows], self.width, self.device)

    def valid(self) -> Any:
        """Whether each row counts, (N, B), in NumPy."""
        if self._counts_NB is None:
            self._counts_NB = np.arange(self.width) < self.sizes_N[:, None]
        return self._counts_NB

    def counts(self) -> torch.Tensor:
        """Whether each row counts, (N, B), on the device."""
        return torch.from_numpy(self.valid()).to(self.device)

    def weights(self) -> Any:
        """One over the size in the rows that count, 0 in the others, in NumPy."""
        return np.divide(self.valid(), self.sizes_N[:, None], dtype=np.float32)
