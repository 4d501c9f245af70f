"""Convolutions as matrix products over patches, channels last.

The textbook way, one convolution with a group for each model, takes oneDNN five times
as long as the models one after the other. Where the patches of one model are too many
for a core's cache, oneDNN convolves the models one after the other.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedtorch.stacked.layers.base import Bound, Function, Layer
from fedtorch.stacked.layers.patches import Patches
from fedtorch.stacked.layers.registry import Maker, register
from fedtorch.stacked.layers.window import Geometry, Image, Window, describe_window
from fedtorch.stacked.rows import Rows, Slot
from fedtorch.stacked.workspace import Workspace

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
        self._bias = bias

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """Binds the layer the way that is faster for images of this size."""
        geometry = self._geometry
        image = geometry.image(shape)
        places = image.b * image.h_out * image.w_out
        (kh, kw), even_pad = geometry.window.kernel, geometry.window.even_pad
        nbytes = 4 * places * kh * kw * geometry.c
        if nbytes > PATCHES and even_pad is not None:
            return self._one_after_the_other(rows, image, shape, wanted)
        return self._patches.bind(rows, image, wanted)

    def _one_after_the_other(
        self, rows: Rows, image: Image, shape: torch.Size, wanted: bool
    ) -> Bound:
        """Calls a convolution of oneDNN for each model."""
        geometry = self._geometry
        n, o, flat, window = image.n, geometry.o, geometry.flat, geometry.window
        weight, bias = self.slots[0], self._bias
        kernels = self._parameter(rows, weight, (o, geometry.c, *window.kernel))
        offsets = None if bias is None else self._parameter(rows, bias, (o,))
        y = self.workspace.take(
            (self, "y"), (n, image.b, o, image.h_out, image.w_out)
        ).tensor
        inputs = (n, image.b, geometry.c, image.h, image.w)
        g_x = self.workspace.take((self, "gx"), inputs).tensor
        _, stride, dilation, _ = window
        settings: Any = (stride, window.even_pad, dilation, False, (0, 0), 1)
        trained_bias = bias is not None and bias.trained
        mask = [wanted, weight.trained, trained_bias]
        kept: list[torch.Tensor] = []

        def forward(x: torch.Tensor) -> torch.Tensor:
            kept[:] = (x.reshape(inputs),)
            for i in range(n):
                b = None if offsets is None else offsets[i]
                y[i] = torch.convolution(kept[0][i], kernels[i], b, *settings)
            return y.squeeze(3) if flat else y

        def backward(gy: torch.Tensor) -> torch.Tensor | None:
            gy = gy.reshape(y.shape)
            for i in range(n):
                found = torch.ops.aten.convolution_backward(
                    gy[i], kept[0][i], kernels[i], [o], *settings, mask
                )
                if wanted:
                    g_x[i] = found[0]
                for slot, value in ((weight, found[1]), (bias, found[2])):
                    if slot is not None and slot.spec is not None:
                        into = rows.gradient(slot.spec).tensor[i]
                        value = value.view(into.shape)
                        into.add_(value) if slot.several else into.copy_(value)
            return g_x.view(shape) if wanted else None

        return Bound(forward, backward, g_x.nbytes)

    def _parameter(
        self, rows: Rows, slot: Slot, shape: tuple[int, ...]
    ) -> torch.Tensor:
        """Returns a parameter as (N, *shape); a frozen one is repeated."""
        if slot.spec is not None:
            return rows.weight(slot.spec).tensor.view(rows.count, *shape)
        assert slot.shared is not None
        return slot.shared.view(shape).expand(rows.count, *shape)


def _group(layer: Any) -> Function:
    """Makes the convolutions of N models one with N times as many groups."""
    convolve = functional.conv1d if type(layer) is nn.Conv1d else functional.conv2d

    def function(
        x: torch.Tensor, parameters: Sequence[torch.Tensor | None]
    ) -> torch.Tensor:
        n, b = x.shape[:2]
        weight, bias = (None if p is None else _of_each(p, n) for p in parameters)
        assert weight is not None
        y: torch.Tensor = convolve(
            x.transpose(0, 1).flatten(1, 2),
            weight.flatten(0, 1),
            None if bias is None else bias.flatten(),
            layer.stride,
            layer.padding,
            layer.dilation,
            n * layer.groups,
        )
        return y.view(b, n, layer.out_channels, *y.shape[2:]).transpose(0, 1)

    return function


def _of_each(parameter: torch.Tensor, n: int) -> torch.Tensor:
    return parameter.expand(n, *parameter.shape[1:])


def _make(maker: Maker, layer: Any) -> Layer:
    if layer.groups > 1:
        function = _group(layer)
        return maker.compose(function, (layer.weight, layer.bias))
    of = maker.slots.of
    return Convolution(maker.workspace, layer, of(layer.weight), of(layer.bias))


def _can(layer: Any, _: Window) -> bool:
    shape = (layer.out_channels, layer.in_channels, *layer.kernel_size)
    return layer.groups == 1 and tuple(layer.weight.shape) == shape


register(
    nn.Conv1d,
    nn.Conv2d,
    make=_make,
    refusal=lambda layer: (
        None if layer.padding_mode == "zeros" else f"pads with {layer.padding_mode!r}"
    ),
    compiled=describe_window("product", _can),
)
