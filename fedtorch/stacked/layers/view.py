"""Layers that give the same values another shape."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from fedtorch.compiled.loop import Compiled, Offsets
from fedtorch.stacked.layers.base import Bound, Layer
from fedtorch.stacked.layers.registry import Maker, register
from fedtorch.stacked.rows import Rows
from fedtorch.stacked.workspace import Workspace, copier


class View(Layer):
    """The same values in the same order, in another shape."""

    def __init__(
        self, workspace: Workspace, function: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        super().__init__(workspace)
        self._function = function

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """Binds the layer, which copies only values that are out of order."""
        state: list[Any] = []

        def forward(x: torch.Tensor) -> torch.Tensor:
            if x.is_contiguous():
                state[:] = (None,)
                return self._function(x)
            straight = self.workspace.take((self, "x"), tuple(shape)).tensor
            state[:] = (x,)
            copier(straight, x)()
            return self._function(straight)

        def backward(gy: torch.Tensor) -> torch.Tensor | None:
            if not wanted:
                return None
            g = gy.reshape(shape)
            (x,) = state
            if x is None or not _without_gaps(x):
                return g
            as_it_lay = self.workspace.like((self, "gx"), x)
            copier(as_it_lay, g)()
            return as_it_lay

        return Bound(forward, backward)


def _without_gaps(x: torch.Tensor) -> bool:
    """Returns whether the values fill a piece of memory, in any order of the axes."""
    expected = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _flatten(layer: Any, x: torch.Tensor) -> torch.Tensor:
    last = layer.end_dim if layer.end_dim < 0 else layer.end_dim + 1
    return x.flatten(layer.start_dim + 1, last)


def _unflatten(layer: Any, x: torch.Tensor) -> torch.Tensor:
    before, after = x.shape[: layer.dim + 1], x.shape[layer.dim + 2 :]
    return x.reshape(*before, *layer.unflattened_size, *after)


def _view(function: Callable[[Any, torch.Tensor], torch.Tensor]) -> Any:
    """Makes the layer of a function of the torch layer and its input (N, B, ...)."""

    def make(maker: Maker, layer: Any) -> Layer:
        return View(maker.workspace, partial(function, layer))

    return make


def _refuses_flatten(layer: Any) -> str | None:
    if layer.start_dim <= 0:
        return f"flattens from axis {layer.start_dim}, which may be that of the batch"
    return None


def _refuses_unflatten(layer: Any) -> str | None:
    if isinstance(layer.dim, str) or layer.dim <= 0:
        return f"unflattens axis {layer.dim}, which may be that of the batch"
    return None


def _describe(layer: Any, at: Offsets) -> Compiled | None:
    """Describes the layer: the loop takes the values of any image in their order."""
    if (layer.start_dim, layer.end_dim) != (1, -1):
        return None
    return lambda layers, shape: (int(np.prod(shape)),)


register(nn.Identity, make=_view(lambda layer, x: x))
register(nn.Flatten, make=_view(_flatten), refusal=_refuses_flatten, compiled=_describe)
register(nn.Unflatten, make=_view(_unflatten), refusal=_refuses_unflatten)
