"""Layers without parameters: one call for the samples of all models."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedtorch.stacked.layers.base import Bound, Function, Layer
from fedtorch.stacked.rows import Rows, Workspace, copier

# What treats every sample by itself, whatever it is told: the samples of all models
# pass as one batch.
BY_SAMPLE: tuple[type[nn.Module], ...] = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU,
    nn.Mish, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Softsign, nn.LogSigmoid,
    nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Hardshrink, nn.Softshrink,
    nn.Tanhshrink, nn.Threshold,
    nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.LPPool1d,
    nn.LPPool2d, nn.ZeroPad1d, nn.ZeroPad2d, nn.ConstantPad1d, nn.ConstantPad2d,
    nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReplicationPad1d, nn.ReplicationPad2d,
    nn.PixelShuffle, nn.PixelUnshuffle, nn.LocalResponseNorm,
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout,
)  # fmt: skip
ALONG = (nn.Softmax, nn.LogSoftmax, nn.Softmin, nn.GLU)  # these have a ``dim``


def by_sample(layer: nn.Module) -> Function:
    """The layer itself, over the samples of all models."""

    def function(x: torch.Tensor, _: Sequence[torch.Tensor | None]) -> torch.Tensor:
        samples = x.flatten(0, 1)
        if getattr(layer, "inplace", False):
            samples = samples.clone()
        y: torch.Tensor = layer(samples)
        return y.reshape(*x.shape[:2], *y.shape[1:])

    return function


def along(layer: Any) -> Function:
    """A layer that works along one axis, which must not be that of the samples."""

    def function(x: torch.Tensor, _: Sequence[torch.Tensor | None]) -> torch.Tensor:
        if layer.dim % (x.dim() - 1) == 0:
            raise ValueError(f"dim={layer.dim} is the axis of the samples")
        y: torch.Tensor = layer(x.flatten(0, 1))
        return y.reshape(*x.shape[:2], *y.shape[1:])

    return function


def instance_norm(layer: Any) -> Function:
    """InstanceNorm without parameters and without running statistics."""

    def function(x: torch.Tensor, _: Sequence[torch.Tensor | None]) -> torch.Tensor:
        return functional.instance_norm(x.flatten(0, 1), eps=layer.eps).view(x.shape)

    return function


class View(Layer):
    """The same values in the same order, in another shape."""

    def __init__(
        self, workspace: Workspace, function: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        super().__init__(workspace)
        self._function = function

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """Copies only what does not lie in order, as images with channels last."""
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
    """Whether the values fill a piece of memory, in any order of the axes."""
    expected = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True
