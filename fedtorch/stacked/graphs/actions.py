"""The computation of each node of a graph, for many models, under autograd.

Values have the shape (N * B, ...), parameters (N, ...). An action raises ValueError if
its function turns out to mix the samples of a batch.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import fx

from fedcore.errors import NotStackableError
from fedtorch.stacked.functions import (
    ALONG,
    BY_VALUE,
    PRODUCTS,
    SWAPS,
    axis_of,
    function_of,
    name_of,
    spares_the_batch,
)
from fedtorch.stacked.layers.base import Composed, Layer
from fedtorch.stacked.rows import Batch, Rows, Slot


class Step:
    """The state of one step through the graph."""

    def __init__(self, rows: Rows, batch: Batch) -> None:
        self.rows = rows
        self.n, self.b = batch.count, batch.width
        self.leaves: list[tuple[Slot, torch.Tensor]] = []
        self.waiting: set[Layer] = set()  # for the gradient of their output
        self.nbytes = 0

    def leaf(self, slot: Slot) -> torch.Tensor:
        """Returns a parameter of each model, (N, *shape), that autograd tracks."""
        self.leaves.append((slot, self.rows.leaf(slot)))
        return self.leaves[-1][1]

    def apart(self, samples: torch.Tensor) -> torch.Tensor:
        """Returns (N * B, ...) as (N, B, ...)."""
        return samples.reshape(self.n, self.b, *samples.shape[1:])


class _ByHand(torch.autograd.Function):
    """A layer that writes the gradients of its parameters itself."""

    @staticmethod
    def forward(ctx: Any, x: Any, token: Any, layer: Layer, step: Step) -> Any:
        apart = step.apart(x)
        wanted = ctx.needs_input_grad[0]
        key = (layer, apart.shape, wanted)
        bound = step.rows.remembered.get(key)
        if bound is None:
            made = layer.bind(step.rows, apart.shape, wanted)
            bound = step.rows.remember(key, made)
        ctx.bound, ctx.step, ctx.layer = bound, step, layer
        step.nbytes += bound.nbytes // 2
        step.waiting.add(layer)
        return bound.forward(apart).flatten(0, 1).detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.step.waiting.discard(ctx.layer)
        with torch.no_grad():
            gx = ctx.bound.backward(ctx.step.apart(gradients[0]))
        return None if gx is None else gx.flatten(0, 1), None, None, None


Action = Callable[[Step, dict[fx.Node, Any]], Any]


def call(node: fx.Node) -> Action:
    """Calls a function with the values of its arguments."""
    function = function_of(node)
    kwargs = {k: v for k, v in node.kwargs.items() if k != "inplace"}

    def action(step: Step, values: dict[fx.Node, Any]) -> Any:
        args = fx.node.map_arg(node.args, values.__getitem__)
        return function(*args, **fx.node.map_arg(kwargs, values.__getitem__))

    return action


def guard(node: fx.Node, inner: Action, shared: frozenset[fx.Node]) -> Action:
    """Checks that samples stay the first axis of an action's values."""
    name = name_of(node) if node.op != "call_module" else ""
    axis = axis_of(node) if name in ALONG else None
    if name in SWAPS:
        axis = [one for one in node.args[1:] if type(one) is int and one < 0] or None
    by_value = name in BY_VALUE

    def action(step: Step, values: dict[fx.Node, Any]) -> Any:
        inputs = [values[one] for one in node.all_input_nodes if one not in shared]
        tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
        if axis is not None and not spares_the_batch(name, axis, tensors[0].dim()):
            raise ValueError(f"{name}() works along the axis of the batch")
        if by_value or name in PRODUCTS:
            dims = {one.dim() for one in tensors}
            if len(dims) > 1 or (name in PRODUCTS and max(dims) < 2 + len(tensors) - 1):
                raise ValueError(f"{name}() mixes the samples of a batch")
            for one in node.all_input_nodes:
                if one in shared and not _spread(values[one], max(dims)):
                    raise ValueError(f"{name}() has a constant for each sample")
        found = inner(step, values)
        for part in found if isinstance(found, tuple | list) else (found,):
            if isinstance(part, torch.Tensor):
                if not part.dim() or part.shape[0] != step.n * step.b:
                    raise ValueError(f"{name or node.target} loses the batch")
                step.nbytes += part.nbytes
        return found

    return action


def _spread(constant: Any, dimensions: int) -> bool:
    """Returns whether a constant is the same for all samples."""
    if not isinstance(constant, torch.Tensor):
        return True
    dims = constant.dim()
    return dims < dimensions or (dims == dimensions and constant.shape[0] == 1)


def by_hand(layer: Layer, source: fx.Node, token: torch.Tensor) -> Action:
    """Calls a layer that writes the gradients of its parameters itself.

    ``token`` requires a gradient, so autograd calls the layer even if no input does.
    """
    apply = cast(Any, _ByHand.apply)

    def action(step: Step, values: dict[fx.Node, Any]) -> Any:
        y = apply(values[source], token, layer, step)
        step.nbytes += y.nbytes
        return y

    return action


def compose(layer: Composed, source: fx.Node, returns_tuple: bool) -> Action:
    """Calls a layer with parameters under the autograd of the whole graph."""

    def action(step: Step, values: dict[fx.Node, Any]) -> Any:
        y = layer.apply(step.apart(values[source]), step.leaf).flatten(0, 1)
        return (y,) if returns_tuple else y

    return action


def with_parameters(node: fx.Node, own: frozenset[fx.Node]) -> Action:
    """Calls a function of values and parameters, which works value by value."""
    function = function_of(node)

    def action(step: Step, values: dict[fx.Node, Any]) -> Any:
        dims = {
            values[one].dim()
            for one in node.all_input_nodes
            if one not in own and isinstance(values[one], torch.Tensor)
        }
        if len(dims) != 1:
            raise ValueError(f"{name_of(node)}() of parameters alone")
        (k,) = dims

        def argument(one: fx.Node) -> Any:
            value = values[one]
            if one not in own:
                return step.apart(value) if isinstance(value, torch.Tensor) else value
            shape = value.shape[1:]
            if len(shape) > k or (len(shape) == k and shape[0] != 1):
                raise ValueError(f"{name_of(node)}() has a parameter for each sample")
            return value.view(step.n, *(1,) * (k - len(shape)), *shape)

        args = fx.node.map_arg(node.args, argument)
        y = function(*args, **fx.node.map_arg(dict(node.kwargs), argument))
        if y.dim() != k + 1 or y.shape[:2] != (step.n, step.b):
            raise ValueError(f"{name_of(node)}() loses the batch")
        return y.flatten(0, 1)

    return action


def product_with(node: fx.Node, own: frozenset[fx.Node]) -> Action:
    """Computes ``x @ parameter``, with a matrix for each model."""
    left, right = node.args[:2]
    if left in own or right not in own:
        raise NotStackableError("a parameter stands left of a matrix product")

    def action(step: Step, values: dict[fx.Node, Any]) -> Any:
        x, w = values[left], values[right]  # type: ignore[index]
        if w.dim() != 3 or x.dim() < 2:
            raise ValueError("a matrix product has a parameter that is no matrix")
        flat = x.reshape(step.n, -1, x.shape[-1])
        return torch.bmm(flat, w).view(*x.shape[:-1], w.shape[2])

    return action
