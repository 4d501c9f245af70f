"""Convolutions of large images: oneDNN convolves the models one after the other."""

from typing import Any

import torch

from fedtorch.stacked.layers.base import Bound
from fedtorch.stacked.layers.geometry import Geometry, Image
from fedtorch.stacked.rows import Rows, Slot, Workspace


class Direct:
    """One convolution of torch for each model."""

    def __init__(
        self,
        workspace: Workspace,
        geometry: Geometry,
        weight: Slot,
        bias: Slot | None,
    ) -> None:
        self._workspace, self._geometry = workspace, geometry
        self._weight, self._bias = weight, bias

    def bind(self, rows: Rows, image: Image, shape: torch.Size, wanted: bool) -> Bound:
        """A convolution of oneDNN for each model."""
        geometry = self._geometry
        n, o, flat = image.n, geometry.o, geometry.flat
        weight, bias = self._weight, self._bias
        kernels = self._parameter(rows, weight, (o, geometry.c, *geometry.k))
        offsets = None if bias is None else self._parameter(rows, bias, (o,))
        y = self._workspace.take(
            (self, "y"), (n, image.b, o, image.h_out, image.w_out)
        ).tensor
        inputs = (n, image.b, geometry.c, image.h, image.w)
        g_x = self._workspace.take((self, "gx"), inputs).tensor
        settings: Any = (
            geometry.stride,
            geometry.even_pad,
            geometry.dilation,
            False,
            (0, 0),
            1,
        )
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
        """(N, *shape), a frozen one N times."""
        if slot.spec is not None:
            return rows.weight(slot.spec).tensor.view(rows.count, *shape)
        assert slot.shared is not None
        return slot.shared.view(shape).expand(rows.count, *shape)
