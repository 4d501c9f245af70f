"""The settings of a convolution, and the sizes of its images."""

from typing import Any, NamedTuple

import torch
from torch import nn

from fedtorch.stacked.layers.window import Pair, pair_of


class Image(NamedTuple):
    """N models, B images each of height H and width W, and the size of the outputs."""

    n: int
    b: int
    h: int
    w: int
    h_out: int
    w_out: int


class Geometry:
    """The settings of a Conv2d, or of a Conv1d as one of height 1.

    ``pad`` are the rows of zeros before and after an image, and the columns.
    """

    def __init__(self, layer: Any) -> None:
        self.flat = isinstance(layer, nn.Conv1d)
        self.o, self.c = layer.out_channels, layer.in_channels
        self.k: Pair = pair_of(layer, layer.kernel_size)
        self.stride: Pair = pair_of(layer, layer.stride)
        self.dilation: Pair = pair_of(layer, layer.dilation)
        self.pad = self._padding(layer)

    def _padding(self, layer: Any) -> tuple[Pair, Pair]:
        if layer.padding == "valid":
            return (0, 0), (0, 0)
        if layer.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.k, strict=True)]
            first, second = ((t // 2, t - t // 2) for t in total)
            return first, second
        high, wide = pair_of(layer, layer.padding, 0)
        return (high, high), (wide, wide)

    @property
    def even_pad(self) -> Pair | None:
        """The zeros on each side, where both sides have the same number of them."""
        (top, bottom), (left, right) = self.pad
        return (top, left) if (top, left) == (bottom, right) else None

    def image(self, shape: torch.Size) -> Image:
        """The sizes for inputs (N, B, C, ...).

        Raises:
            ValueError: they have another number of channels.
        """
        if shape[2] != self.c:
            raise ValueError(f"expected {self.c} channels, got {shape[2]}")
        h, w = (1, shape[3]) if self.flat else shape[3:]
        out = [
            (size + sum(pad) - d * (k - 1) - 1) // s + 1
            for size, pad, k, s, d in zip(
                (h, w), self.pad, self.k, self.stride, self.dilation, strict=True
            )
        ]
        return Image(shape[0], shape[1], h, w, out[0], out[1])
