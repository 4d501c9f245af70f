"""Activations, without autograd where torch has their derivative as one operation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from fedtorch.compiled import loop
from fedtorch.compiled.loop import Shape
from fedtorch.stacked.layers.base import Bound, Layer
from fedtorch.stacked.layers.registry import Maker, register
from fedtorch.stacked.rows import Rows
from fedtorch.stacked.workspace import Workspace

aten = torch.ops.aten
_threshold_backward = aten.threshold_backward.grad_input


class Derivative(NamedTuple):
    """An activation, and the gradient of its input by ``backward(gy, kept)``.

    ``kept`` is the output if ``keeps_output`` says so, else the input.
    """

    forward: Callable[[torch.Tensor], torch.Tensor]
    backward: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    keeps_output: bool


class Activation(Layer):
    """One elementwise function of its input."""

    def __init__(self, workspace: Workspace, derivative: Derivative) -> None:
        super().__init__(workspace)
        self._derivative = derivative

    def following(self, before: Layer) -> Layer:
        """Returns a ReLU that writes over its input, if it may."""
        over = before.fresh and self._derivative.forward is torch.relu
        return _InPlaceReLU(self.workspace) if over else self

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """Binds the activation, which keeps its input or its output."""
        apply, backward_of, keeps_output = self._derivative
        kept: list[torch.Tensor] = []

        def forward(x: torch.Tensor) -> torch.Tensor:
            y = apply(x)
            if wanted:
                kept[:] = (y if keeps_output else x,)
            return y

        def backward(gy: torch.Tensor) -> torch.Tensor | None:
            return backward_of(gy, kept.pop()) if wanted else None

        return Bound(forward, backward)


class _InPlaceReLU(Layer):
    """A ReLU that writes over the output of the layer before it."""

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """Binds the layer; the gradient has the output's order in memory."""
        kept: list[torch.Tensor] = []

        def forward(x: torch.Tensor) -> torch.Tensor:
            if not kept:  # the layer before it always writes to the same place
                kept[:] = x, self.workspace.like((self, "gx"), x)
            return torch.relu_(x)

        def backward(gy: torch.Tensor) -> torch.Tensor:
            _threshold_backward(gy, kept[0], 0, grad_input=kept[1])
            return kept[1]

        return Bound(forward, backward)


def _gelu(layer: Any) -> Derivative:
    how = layer.approximate
    return Derivative(
        lambda x: nn.functional.gelu(x, approximate=how),
        lambda gy, x: aten.gelu_backward(gy, x, approximate=how),
        keeps_output=False,
    )


def _leaky_relu(layer: Any) -> Derivative:
    slope = layer.negative_slope
    return Derivative(
        lambda x: nn.functional.leaky_relu(x, slope),
        lambda gy, x: aten.leaky_relu_backward(gy, x, slope, False),
        keeps_output=False,
    )


def _elu(layer: Any) -> Derivative:
    alpha = layer.alpha
    return Derivative(
        lambda x: nn.functional.elu(x, alpha),
        lambda gy, x: aten.elu_backward(gy, alpha, 1, 1, False, x),
        keeps_output=False,
    )


_BY_HAND: dict[type[nn.Module], Callable[[Any], Derivative]] = {
    nn.ReLU: lambda _: Derivative(
        torch.relu, lambda gy, y: aten.threshold_backward(gy, y, 0), keeps_output=True
    ),
    nn.Tanh: lambda _: Derivative(torch.tanh, aten.tanh_backward, keeps_output=True),
    nn.Sigmoid: lambda _: Derivative(
        torch.sigmoid, aten.sigmoid_backward, keeps_output=True
    ),
    nn.SiLU: lambda _: Derivative(
        nn.functional.silu, aten.silu_backward, keeps_output=False
    ),
    nn.GELU: _gelu,
    nn.LeakyReLU: _leaky_relu,
    nn.ELU: _elu,
}


def _make(maker: Maker, layer: nn.Module) -> Layer:
    return Activation(maker.workspace, _BY_HAND[type(layer)](layer))


def _rectify(layers: list[loop.Layer], shape: Shape) -> Shape | None:
    """Makes the layer before it a layer with ReLU, as the compiled loop knows it."""
    if not layers:
        return None
    layers[-1] = layers[-1]._replace(rectified=True)
    return shape


register(
    *_BY_HAND,
    make=_make,
    compiled=lambda layer, at: _rectify if type(layer) is nn.ReLU else None,
    by_value=("relu", "tanh", "sigmoid", "silu", "gelu", "leaky_relu", "elu"),
)
register(
    nn.ReLU6, nn.SELU, nn.CELU, nn.Mish, nn.Softplus, nn.Softsign, nn.LogSigmoid,
    nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Hardshrink, nn.Softshrink,
    nn.Tanhshrink, nn.Threshold,
    by_value=(
        "relu6", "selu", "celu", "mish", "softplus", "softsign", "logsigmoid",
        "hardtanh", "hardswish", "hardsigmoid",
    ),
)  # fmt: skip
