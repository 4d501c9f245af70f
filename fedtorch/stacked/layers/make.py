"""Which layer of many models stands for which layer of one."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from fedtorch.stacked.layers.activation import Activation, derivative_of
from fedtorch.stacked.layers.base import Composed, Layer
from fedtorch.stacked.layers.convolution import Convolution
from fedtorch.stacked.layers.embedding import Embedding
from fedtorch.stacked.layers.grouped import grouped_convolution
from fedtorch.stacked.layers.linear import Linear
from fedtorch.stacked.layers.normalisation import group_norm, layer_norm
from fedtorch.stacked.layers.plain import (
    ALONG,
    BY_SAMPLE,
    View,
    along,
    by_sample,
    instance_norm,
)
from fedtorch.stacked.layers.recurrent import recurrent
from fedtorch.stacked.rows import Slots, Workspace

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)
RECURRENT = (nn.LSTM, nn.GRU, nn.RNN)
INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d)
_NAMED: tuple[type[nn.Module], ...] = (
    nn.Linear, nn.Embedding, nn.GroupNorm, nn.LayerNorm, nn.Flatten, nn.Identity,
    nn.Unflatten, *CONVOLUTIONS, *RECURRENT, *INSTANCE_NORMS, *BY_SAMPLE, *ALONG,
)  # fmt: skip


def refusal(layer: Any) -> str | None:
    """Why this layer is left to vmap, in words that follow its name; None: it is not.

    Only exact types are known: a subclass may compute something else.
    """
    kind = type(layer)
    if kind not in _NAMED:
        return "is not among the layers that are stacked"
    if kind in CONVOLUTIONS and layer.padding_mode != "zeros":
        return f"pads with {layer.padding_mode!r}"
    if kind is nn.Embedding and (
        layer.max_norm is not None or layer.scale_grad_by_freq or layer.sparse
    ):
        return "has max_norm, scale_grad_by_freq or sparse"
    if kind in INSTANCE_NORMS and (layer.affine or layer.track_running_stats):
        return "has parameters or running statistics"
    if kind in RECURRENT and (
        not layer.batch_first
        or layer.bidirectional
        or layer.proj_size
        or layer.mode not in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU")
    ):
        return "is stacked only with batch_first=True, in one direction, unprojected"
    if kind in ALONG and layer.dim in (None, 0):
        return f"has dim={layer.dim}, which may be that of the batch"
    if kind is nn.Flatten and layer.start_dim <= 0:
        return f"flattens from axis {layer.start_dim}, which may be that of the batch"
    if kind is nn.Unflatten and (isinstance(layer.dim, str) or layer.dim <= 0):
        return f"unflattens axis {layer.dim}, which may be that of the batch"
    if getattr(layer, "return_indices", False):
        return "returns indices too"
    return None


class Maker:
    """Makes layers over one workspace."""

    def __init__(self, workspace: Workspace, slots: Slots) -> None:
        self.workspace, self.slots = workspace, slots

    def count(self, layer: nn.Module) -> None:
        """Notes that there will be such a layer; before any is made."""
        for parameter in layer.parameters():
            self.slots.count(parameter)

    def make(self, layer: Any) -> Layer:
        """The layer; :func:`refusal` has been asked."""
        kind = type(layer)
        if kind is nn.Linear:
            return self.linear(layer.weight, layer.bias)
        if kind in CONVOLUTIONS:
            return self._convolution(layer)
        if kind is nn.Embedding:
            return Embedding(self.workspace, layer, self.slots.of(layer.weight))
        if kind is nn.GroupNorm:
            return self._composed(group_norm(layer), (layer.weight, layer.bias))
        if kind is nn.LayerNorm:
            return self._composed(layer_norm(layer), (layer.weight, layer.bias))
        if kind in RECURRENT:
            return self._composed(recurrent(layer), tuple(layer.parameters()))
        if kind is nn.Identity:
            return View(self.workspace, lambda x: x)
        if kind is nn.Flatten:
            return self._flatten(layer)
        if kind is nn.Unflatten:
            return View(self.workspace, partial(_unflattened, layer))
        if kind in INSTANCE_NORMS:
            return self._composed(instance_norm(layer))
        derivative = derivative_of(layer)
        if derivative is not None:
            return Activation(self.workspace, derivative)
        if kind in ALONG:
            return self._composed(along(layer))
        return self._composed(by_sample(layer))

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        """A fully connected layer of these parameters."""
        of = self.slots.of
        return Linear(self.workspace, of(weight), None if bias is None else of(bias))

    def _convolution(self, layer: Any) -> Layer:
        if layer.groups > 1:
            return self._composed(
                grouped_convolution(layer), (layer.weight, layer.bias)
            )
        of = self.slots.of
        bias = None if layer.bias is None else of(layer.bias)
        return Convolution(self.workspace, layer, of(layer.weight), bias)

    def _flatten(self, layer: Any) -> Layer:
        first, last = layer.start_dim + 1, layer.end_dim
        last = last if last < 0 else last + 1
        return View(self.workspace, lambda x: x.flatten(first, last))

    def _composed(
        self, function: Any, parameters: Sequence[torch.Tensor | None] = ()
    ) -> Composed:
        of = self.slots.of
        slots = [None if p is None else of(p) for p in parameters]
        return Composed(self.workspace, function, slots)


def _unflattened(layer: Any, x: torch.Tensor) -> torch.Tensor:
    before, after = x.shape[: layer.dim + 1], x.shape[layer.dim + 2 :]
    return x.reshape(*before, *layer.unflattened_size, *after)
