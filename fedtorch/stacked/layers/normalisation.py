"""Normalisation of each sample, with scale and shift of each model."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedtorch.stacked.layers.base import Function, Layer
from fedtorch.stacked.layers.registry import Maker, register

Parameters = Sequence[torch.Tensor | None]


def group_norm(layer: Any) -> Function:
    """Returns GroupNorm over (N, B, C, ...)."""

    def function(x: torch.Tensor, parameters: Parameters) -> torch.Tensor:
        flat = x.flatten(0, 1)
        y = functional.group_norm(flat, layer.num_groups, eps=layer.eps).view(x.shape)
        ones = (1,) * (x.dim() - 3)
        return _affine(
            y, [None if p is None else p.view(len(p), 1, -1, *ones) for p in parameters]
        )

    return function


def layer_norm(layer: Any) -> Function:
    """Returns LayerNorm over the last axes."""
    shape = tuple(layer.normalized_shape)

    def function(x: torch.Tensor, parameters: Parameters) -> torch.Tensor:
        y = functional.layer_norm(x, shape, eps=layer.eps)
        ones = (1,) * (x.dim() - 1 - len(shape))
        return _affine(
            y,
            [None if p is None else p.view(len(p), *ones, *shape) for p in parameters],
        )

    return function


def _affine(y: torch.Tensor, parameters: Parameters) -> torch.Tensor:
    weight, bias = parameters
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


def _make(norm: Callable[[Any], Function]) -> Callable[[Maker, Any], Layer]:
    def make(maker: Maker, layer: Any) -> Layer:
        return maker.compose(norm(layer), (layer.weight, layer.bias))

    return make


def _refusal(layer: Any) -> str | None:
    if layer.affine or layer.track_running_stats:
        return "has parameters or running statistics"
    return None


register(nn.GroupNorm, make=_make(group_norm))
register(nn.LayerNorm, make=_make(layer_norm))
register(nn.InstanceNorm1d, nn.InstanceNorm2d, refusal=_refusal)
