"""Normalisation of each sample, with scale and shift of each model."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from fedtorch.stacked.layers.base import Function

Parameters = Sequence[torch.Tensor | None]


def group_norm(layer: Any) -> Function:
    """GroupNorm over (N, B, C, ...)."""

    def function(x: torch.Tensor, parameters: Parameters) -> torch.Tensor:
        flat = x.flatten(0, 1)
        y = functional.group_norm(flat, layer.num_groups, eps=layer.eps).view(x.shape)
        ones = (1,) * (x.dim() - 3)
        return _affine(
            y, [None if p is None else p.view(len(p), 1, -1, *ones) for p in parameters]
        )

    return function


def layer_norm(layer: Any) -> Function:
    """LayerNorm over the last axes."""
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
