"""A fully connected layer: one matrix product a model."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedtorch.compiled import loop
from fedtorch.compiled.loop import Compiled, Offsets, Shape
from fedtorch.stacked.layers.base import Bound, Layer
from fedtorch.stacked.layers.registry import Maker, register
from fedtorch.stacked.rows import Rows, Slot
from fedtorch.stacked.workspace import Workspace

LONG = 512  # inputs, from which on torch.bmm is faster at x W^T than NumPy


class Linear(Layer):
    """``y = x W^T + b`` over the last axis, forward and backward without autograd.

    With ``classes_first`` the memory of the output is (N, O, B): the softmax over O is
    then 20 times as fast as over the last axis, for ten classes.
    """

    fresh = True

    def __init__(self, workspace: Workspace, weight: Slot, bias: Slot | None) -> None:
        super().__init__(workspace)
        self._weight, self._bias = weight, bias
        self.slots = (weight,) if bias is None else (weight, bias)

    def bind(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """Binds products that write their results where they are needed."""
        n, f = shape[0], shape[-1]
        width = shape[1:-1].numel()
        if self._weight.spec is None:
            return self._frozen(rows, shape, wanted)
        matrix, multiply = self.workspace.products
        w_NOF = rows.weight(self._weight.spec).matrix
        w_NFO, o = w_NOF.swapaxes(1, 2), w_NOF.shape[1]
        bias = self._bias_row(rows)
        first = self.classes_first and len(shape) == 3
        long = f >= LONG
        w_T = rows.weight(self._weight.spec).tensor.transpose(1, 2)
        kept: list[Any] = []  # the input as a matrix, from forward to backward
        if first:
            block = self.workspace.take((self, "y"), (n, o, width))
            y, y_out = block.tensor.transpose(1, 2), block.matrix
        else:
            y, y_out = self.workspace.take((self, "y"), (n, width, o))
        plain = len(shape) == 3
        g_x, g_x_out = self.workspace.take((self, "gx"), (n, width, f))
        y_out_shape, g_x_shape = (*shape[:-1], o), tuple(shape)

        def forward(x: torch.Tensor) -> torch.Tensor:
            x_NBF = matrix(x if plain else x.reshape(n, width, f))
            kept[:] = (x_NBF,)
            if first:
                multiply(w_NOF, x_NBF.swapaxes(1, 2), out=y_out)
            elif long:
                torch.bmm(x if plain else x.reshape(n, width, f), w_T, out=y)
            else:
                multiply(x_NBF, w_NFO, out=y_out)
            if bias is not None:
                y.add_(bias)
            return y if plain else y.view(y_out_shape)

        put = self._writer(rows)

        def backward(gy: torch.Tensor) -> torch.Tensor | None:
            gy_NBO = gy if plain else gy.reshape(n, width, o)
            g = matrix(gy_NBO)
            put(gy_NBO, g, kept[0])
            if not wanted:
                return None
            multiply(g, w_NOF, out=g_x_out)
            return g_x if plain else g_x.view(g_x_shape)

        return Bound(forward, backward)

    def _bias_row(self, rows: Rows) -> torch.Tensor | None:
        """Returns the bias as (N, 1, O), or (O,) if it is frozen."""
        bias = self._bias
        if bias is None:
            return None
        if bias.spec is None:
            return bias.shared
        return rows.weight(bias.spec).tensor.unsqueeze(1)

    def _writer(self, rows: Rows) -> Any:
        """Returns a function that writes the gradients of W and b."""
        weight, bias = self._weight, self._bias
        multiply = self.workspace.products.multiply
        g_w: Any = None
        if weight.spec is not None:
            g_w = rows.gradient(weight.spec).matrix
            if weight.several:
                shape = (rows.count, *weight.spec.shape)
                g_w = self.workspace.take((self, "gw"), shape).matrix
        g_b = None
        if bias is not None and bias.spec is not None:
            g_b = rows.gradient(bias.spec).tensor

        def put(gy: torch.Tensor, g: Any, x: Any) -> None:
            if g_w is not None:
                multiply(g.swapaxes(1, 2), x, out=g_w)
                if weight.several:
                    rows.put(weight, torch.as_tensor(g_w))
            if g_b is None:
                return
            if bias is not None and bias.several:
                g_b.add_(gy.sum(1))
            else:
                torch.sum(gy, 1, out=g_b)

        return put

    def _frozen(self, rows: Rows, shape: torch.Size, wanted: bool) -> Bound:
        """Binds the layer with one frozen weight for all models: one product."""
        assert self._weight.shared is not None
        matrix, multiply = self.workspace.products
        w_1OF = matrix(self._weight.shared[None])
        w_1FO = w_1OF.swapaxes(1, 2)
        n, f, o = shape[0], shape[-1], w_1OF.shape[1]
        samples = shape[:-1].numel()
        bias, put = self._bias_row(rows), self._writer(rows)
        y, y_out = self.workspace.take((self, "y"), (1, samples, o))
        g_x, g_x_out = self.workspace.take((self, "gx"), (1, samples, f))

        def forward(x: torch.Tensor) -> torch.Tensor:
            multiply(matrix(x.reshape(1, samples, f)), w_1FO, out=y_out)
            y_NBO = y.view(n, -1, o)
            if bias is not None:
                y_NBO.add_(bias)
            return y.view(*shape[:-1], o)

        def backward(gy: torch.Tensor) -> torch.Tensor | None:
            put(gy.reshape(n, -1, o), None, None)
            if not wanted:
                return None
            multiply(matrix(gy.reshape(1, samples, o)), w_1OF, out=g_x_out)
            return g_x.view(shape)

        return Bound(forward, backward)


def _make(maker: Maker, layer: Any) -> Layer:
    of = maker.slots.of
    return Linear(maker.workspace, of(layer.weight), of(layer.bias))


def _describe(layer: Any, at: Offsets) -> Compiled | None:
    if layer.weight.shape != (layer.out_features, layer.in_features):
        return None

    def add(layers: list[loop.Layer], shape: Shape) -> Shape | None:
        if shape != (layer.in_features,):
            return None
        inputs, outputs = (shape[0], 1, 1), (layer.out_features, 1, 1)
        weight, bias = at["weight"], at.get("bias", -1)
        layers.append(loop.Layer(inputs, outputs, weight=weight, bias=bias))
        return outputs[:1]

    return add


register(
    nn.Linear,
    make=_make,
    compiled=_describe,
    function=(functional.linear, ("weight", "bias")),
)
