"""Convolutions with groups: the models become more groups of one convolution."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedtorch.stacked.layers.base import Function


def grouped_convolution(layer: Any) -> Function:
    """Conv1d or Conv2d with groups, of N models as one with N times as many."""
    convolve = functional.conv1d if type(layer) is nn.Conv1d else functional.conv2d

    def function(
        x: torch.Tensor, parameters: Sequence[torch.Tensor | None]
    ) -> torch.Tensor:
        n, b = x.shape[:2]
        weight, bias = (None if p is None else _all(p, n) for p in parameters)
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


def _all(parameter: torch.Tensor, n: int) -> torch.Tensor:
    return parameter.expand(n, *parameter.shape[1:])
