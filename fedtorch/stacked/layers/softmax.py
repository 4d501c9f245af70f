"""Layers that work along one axis, which must not be that of the samples."""

from typing import Any

import torch
from torch import nn

from fedtorch.stacked.layers.registry import register


def _refusal(layer: Any) -> str | None:
    if layer.dim in (None, 0):
        return f"has dim={layer.dim}, which may be that of the batch"
    return None


def _call(layer: Any, samples: torch.Tensor) -> torch.Tensor:
    if layer.dim % samples.dim() == 0:
        raise ValueError(f"dim={layer.dim} is the axis of the samples")
    y: torch.Tensor = layer(samples)
    return y


register(
    nn.Softmax, nn.LogSoftmax, nn.Softmin, nn.GLU,
    refusal=_refusal,
    call=_call,
    along=("softmax", "log_softmax", "softmin", "glu"),
)  # fmt: skip
