"""Activations whose derivative torch has as one operation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from fedtorch.stacked.layers.base import Bound, Layer
from fedtorch.stacked.rows import Rows, Workspace

aten = torch.ops.aten
_threshold_backward = aten.threshold_backward.grad_input


class Derivative(NamedTuple):
    """``backward(gy, kept)`` is the gradient of the input."""

    forward: Callable[[torch.Tensor], torch.Tensor]
    backward: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    keeps_output: bool


class Activation(Layer):
    """One elementwise function of its input."""

    def __init__(self, workspace: Workspace, derivative: Derivative) -> None:
        super().__init__(workspace)
        self._derivative = derivative
        self._kept: torch.Tensor | None = None

    def forward(self, rows: Rows, x: torch.Tensor) -> torch.Tensor:
        """The function."""
        y = self._derivative.forward(x)
        self._kept = y if self._derivative.keeps_output else x
        return y

    def backward(
        self, rows: Rows, gy: torch.Tensor, wanted: bool
    ) -> torch.Tensor | None:
        """Its derivative."""
        assert self._kept is not None
        return self._derivative.backward(gy, self._kept) if wanted else None


class InPlaceReLU(Layer):
    """A ReLU that writes over the output of the layer before it."""

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """The gradient lies in memory as the output does."""
        kept: list[torch.Tensor] = []

        def forward(x: torch.Tensor) -> torch.Tensor:
            if not kept:  # the layer before it always writes to the same place
                kept[:] = x, self.workspace.like((self, "gx"), x)
            return torch.relu_(x)

        def backward(gy: torch.Tensor) -> torch.Tensor:
            _threshold_backward(gy, kept[0], 0, grad_input=kept[1])
            return kept[1]

        return Bound(forward, backward)


def derivative_of(layer: nn.Module) -> Derivative | None:
    """How to differentiate this layer; None where autograd has to."""
    make = _DERIVATIVES.get(type(layer))
    return None if make is None else make(layer)


def _relu(layer: nn.Module) -> Derivative:
    return Derivative(
        torch.relu, lambda gy, y: aten.threshold_backward(gy, y, 0), keeps_output=True
    )


def _tanh(layer: nn.Module) -> Derivative:
    return Derivative(torch.tanh, aten.tanh_backward, keeps_output=True)


def _sigmoid(layer: nn.Module) -> Derivative:
    return Derivative(torch.sigmoid, aten.sigmoid_backward, keeps_output=True)


def _silu(layer: nn.Module) -> Derivative:
    return Derivative(nn.functional.silu, aten.silu_backward, keeps_output=False)


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


_DERIVATIVES: dict[type[nn.Module], Callable[[Any], Derivative]] = {
    nn.ReLU: _relu,
    nn.Tanh: _tanh,
    nn.Sigmoid: _sigmoid,
    nn.SiLU: _silu,
    nn.GELU: _gelu,
    nn.LeakyReLU: _leaky_relu,
    nn.ELU: _elu,
}
