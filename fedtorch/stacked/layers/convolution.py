"""Convolutions as matrix products over patches, channels last.

The textbook way, one convolution with a group for each model, takes oneDNN five times
as long as the models one after the other. Where the patches of one model are too many
for a core's cache, oneDNN convolves the models one after the other.
"""

from typing import Any

import torch
from torch import nn

from fedtorch.stacked.layers.base import Bound, Layer
from fedtorch.stacked.layers.direct import Direct
from fedtorch.stacked.layers.geometry import Geometry
from fedtorch.stacked.layers.grouped import grouped_convolution
from fedtorch.stacked.layers.patches import Patches
from fedtorch.stacked.layers.registry import Maker, register
from fedtorch.stacked.layers.window import Window, compiled_window, window
from fedtorch.stacked.rows import Rows, Slot, Workspace

PATCHES = 3 << 19  # bytes of a model's patches, beyond which oneDNN is as fast


class Convolution(Layer):
    """Conv1d or Conv2d, without groups and padded with zeros."""

    fresh = True

    def __init__(
        self, workspace: Workspace, layer: Any, weight: Slot, bias: Slot | None
    ) -> None:
        super().__init__(workspace)
        self.slots = (weight,) if bias is None else (weight, bias)
        self._geometry = Geometry(layer)
        self._patches = Patches(workspace, self._geometry, weight, bias)
        self._direct = Direct(workspace, self._geometry, weight, bias)

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """The faster of both ways for images of this size."""
        geometry = self._geometry
        image = geometry.image(shape)
        places = image.b * image.h_out * image.w_out
        nbytes = 4 * places * geometry.k[0] * geometry.k[1] * geometry.c
        if nbytes > PATCHES and geometry.even_pad is not None:
            return self._direct.bind(rows, image, shape, wanted)
        return self._patches.bind(rows, image, wanted)


def _make(maker: Maker, layer: Any) -> Layer:
    if layer.groups > 1:
        function = grouped_convolution(layer)
        return maker.composed(function, (layer.weight, layer.bias))
    of = maker.slots.of
    return Convolution(maker.workspace, layer, of(layer.weight), of(layer.bias))


def _refusal(layer: Any) -> str | None:
    if layer.padding_mode != "zeros":
        return f"pads with {layer.padding_mode!r}"
    return None


def _window(layer: Any) -> Window | None:
    shape = (layer.out_channels, layer.in_channels, *layer.kernel_size)
    if layer.groups != 1 or tuple(layer.weight.shape) != shape:
        return None
    return window(layer, "product")


register(
    nn.Conv1d,
    nn.Conv2d,
    make=_make,
    refusal=_refusal,
    compiled=compiled_window(_window),
)
