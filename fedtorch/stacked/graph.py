"""A traced module over stacked parameters, with autograd.

The samples of all models pass as one batch of N * B: what treats each sample by itself
needs no change. Layers and functions with parameters get those of each model.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import fx, nn
from torch.nn import functional

from fedcore.errors import NotStackableError
from fedcore.params import TensorSpec
from fedtorch.stacked.batch import Batch
from fedtorch.stacked.functions import (
    ALONG,
    BY_VALUE,
    PRODUCTS,
    SHAPES,
    SIZES,
    SWAPS,
    axis_of,
    function_of,
    name_of,
    refused_call,
    spares_the_batch,
)
from fedtorch.stacked.layers import Composed, Layer, Maker, refusal
from fedtorch.stacked.layers.plain import ALONG as LAYERS_ALONG
from fedtorch.stacked.losses import Loss
from fedtorch.stacked.rows import Rows, Slot
from fedtorch.stacked.trace import traced
from fedtorch.tensors import first, mapped


class Step:
    """The state of one step through the graph."""

    def __init__(self, rows: Rows, batch: Batch) -> None:
        self.rows = rows
        self.n, self.b = batch.count, batch.width
        self.leaves: list[tuple[Slot, torch.Tensor]] = []
        self.waiting: set[Layer] = set()  # for the gradient of their output
        self.nbytes = 0

    def leaf(self, slot: Slot) -> torch.Tensor:
        """A parameter of each model, (N, *shape), that autograd follows."""
        assert slot.spec is not None
        leaf = self.rows.weight(slot.spec).tensor.detach().requires_grad_()
        self.leaves.append((slot, leaf))
        return leaf

    def apart(self, samples: torch.Tensor) -> torch.Tensor:
        """(N * B, ...) as (N, B, ...)."""
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


class Graph:
    """The nodes of a traced module, each as what it is for many models."""

    def __init__(
        self,
        actions: Sequence[tuple[fx.Node, Action]],
        output: fx.Node,
        words: str,
        loss: Loss,
        to_clear: Sequence[TensorSpec],
    ) -> None:
        self._actions, self._output = tuple(actions), output
        self._loss, self._to_clear = loss, tuple(to_clear)
        self.words = f"stacked by layer along its graph ({words}), {loss.words}"
        self.overhead = 8
        self.per_sample: dict[torch.Size, float] = {}

    def step(self, rows: Rows, x: Any, y: Any, batch: Batch) -> Any:
        """The graph forward, the loss, and autograd back."""
        step = Step(rows, batch)
        values: dict[fx.Node, Any] = {}
        with torch.enable_grad():
            for node, action in self._actions:
                if node.op == "placeholder":
                    values[node] = mapped(x, lambda part: part.flatten(0, 1))
                else:
                    values[node] = action(step, values)
            out = values[self._output]
        if not isinstance(out, torch.Tensor) or out.shape[0] != step.n * step.b:
            raise ValueError("its output is not one tensor of all samples")
        with torch.no_grad():
            loss_N, g = self._loss(step.apart(out.detach()), y, batch)
            if self._to_clear:
                rows.clear(self._to_clear)
        torch.autograd.backward(out, g.flatten(0, 1))
        for slot, leaf in step.leaves:
            if leaf.grad is not None:
                rows.put(slot, leaf.grad)
            elif slot.spec is not None and not slot.several:
                rows.clear((slot.spec,))
        for layer in step.waiting:  # the loss does not depend on their output
            rows.clear(
                [slot.spec for slot in layer.slots if slot.spec and not slot.several]
            )
        self.per_sample[first(x).shape[2:]] = 2 * step.nbytes / (step.n * step.b)
        return loss_N


def graph(module: nn.Module, maker: Maker, loss: Loss) -> Graph:
    """The module's graph for many models at once.

    Raises:
        NotStackableError: it has none, or a node of it is not known here.
    """
    followed, root = traced(module)
    planner = _Planner(followed, root, maker)
    counts = Counter(
        type(root.get_submodule(str(node.target))).__name__
        for node in followed.nodes
        if node.op == "call_module"
    )
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    actions, output = planner.planned()
    return Graph(actions, output, words, loss, maker.slots.to_clear())


class _Planner:
    """Looks at every node once."""

    def __init__(self, followed: fx.Graph, root: nn.Module, maker: Maker) -> None:
        self._nodes = list(followed.nodes)
        self._root, self._maker = root, maker
        self._own: dict[fx.Node, torch.Tensor] = {}  # parameters of each model
        self._shared: set[fx.Node] = set()  # constants
        self._sizes: set[fx.Node] = set()  # numbers, from shapes

    def planned(self) -> tuple[list[tuple[fx.Node, Action]], fx.Node]:
        """What to do for each node, and which is the output."""
        live = self._live()
        for node in self._nodes:
            if node in live:
                self._classify(node)
            elif _writes(node, self._root):
                raise NotStackableError(f"{node.target} writes over a value")
        self._token = torch.zeros((), requires_grad=True)
        actions: list[tuple[fx.Node, Action]] = []
        for node in self._nodes:
            if node.op == "output":
                (output,) = node.args
                if not isinstance(output, fx.Node):
                    raise NotStackableError("its output is not one tensor")
                return actions, output
            if node in live:
                actions.append((node, self._action(node)))
        raise NotStackableError("its graph has no output")

    def _live(self) -> set[fx.Node]:
        """What the output depends on, and the input."""
        live = {one for one in self._nodes if one.op in ("placeholder", "output")}
        for node in reversed(self._nodes):
            if node in live:
                live.update(node.all_input_nodes)
        return live

    def _classify(self, node: fx.Node) -> None:
        """Refuses what is not known, and counts the uses of parameters."""
        if node.op == "call_module":
            layer = self._root.get_submodule(str(node.target))
            reason = refusal(layer)
            name = str(node.target).removeprefix("module.").removeprefix("module")
            if reason is not None:
                raise NotStackableError(
                    f"layer {name!r} ({type(layer).__name__}) {reason}"
                )
            if len(node.args) != 1 or node.kwargs:
                raise NotStackableError(f"layer {name!r} has several inputs")
            if getattr(layer, "inplace", False) and len(node.args[0].users) > 1:  # type: ignore[union-attr]
                raise NotStackableError(
                    f"layer {name!r} writes over a value that is used again"
                )
            if isinstance(layer, nn.RNNBase) and any(
                (name_of(user) != "getitem" or user.args[1] != 0) and user.users
                for user in node.users
            ):
                raise NotStackableError(f"the state of layer {name!r} is used")
            self._maker.count(layer)
        elif node.op == "get_attr":
            self._attribute(node)
        elif node.op in ("call_function", "call_method"):
            self._call(node)

    def _attribute(self, node: fx.Node) -> None:
        value = self._value(node)
        if isinstance(value, torch.Tensor) and value.requires_grad:
            self._own[node] = value
            if any(not _is_weight(user, node) for user in node.users):
                self._maker.slots.count(value)
        elif str(node.target).startswith("_tensor_constant"):
            raise NotStackableError("it makes a tensor of its own while it runs")
        else:
            self._shared.add(node)

    def _call(self, node: fx.Node) -> None:
        name = name_of(node)
        inputs = node.all_input_nodes
        if node.target is functional.linear:
            self._linear_call(node)
            return
        constant = self._shared | self._sizes  # as part of a table, up to a length
        if not self._shared.isdisjoint(inputs) and constant.issuperset(inputs):
            self._shared.add(node)
            return
        if name in SIZES or (name == "getattr" and node.args[1] in ("shape", "ndim")):
            self._sizes.add(node)
            return
        if inputs and all(one in self._sizes for one in inputs):
            self._sizes.add(node)
            return
        reason = refused_call(node)
        if reason is None and name == "getattr":
            reason = f"the attribute {node.args[1]!r} of a tensor is not known"
        if reason is None and name == "getitem":
            reason = self._refused_item(node)
        sizes = any(one in self._sizes for one in inputs)
        if reason is None and sizes and name not in (*SHAPES, "getitem"):
            reason = f"{name}() is given a size, which may be that of the batch"
        own = any(one in self._own for one in inputs)
        if reason is None and own and name not in BY_VALUE | PRODUCTS:
            reason = f"{name}() is given a parameter"
        if reason is not None:
            raise NotStackableError(reason)

    def _linear_call(self, node: fx.Node) -> None:
        names = ("input", "weight", "bias")
        given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        for name in ("weight", "bias"):
            one = given.get(name)
            if one is None:
                continue
            if not isinstance(one, fx.Node) or one.op != "get_attr":
                raise NotStackableError("linear() is given computed weights")
            if one in self._own:
                self._maker.slots.count(self._own[one])

    def _refused_item(self, node: fx.Node) -> str | None:
        """``x[:, ...]`` picks within samples; other tensors pick among them."""
        source, index = node.args
        first = index[0] if isinstance(index, tuple) and index else index
        if isinstance(index, str):
            return None
        if (
            isinstance(source, fx.Node)
            and (
                source.op == "placeholder"
                or name_of(source) in ("chunk", "split", "unbind")
                or source.op == "call_module"
                or name_of(source) == "getitem"
            )
            and type(index) is int
        ):
            return None  # a part of a tuple; of a tensor it would lose the batch
        if isinstance(index, tuple) and first == slice(None):
            return None
        return "indexing picks samples of the batch"

    def _action(self, node: fx.Node) -> Action:
        if node.op == "placeholder":
            return lambda step, values: None
        if node.op == "get_attr":
            return self._get(node)
        if node.op == "call_module":
            return self._module(node)
        if node.target is functional.linear:
            return self._linear(node)
        if node in self._shared or node in self._sizes:
            return _called(node)
        name = name_of(node)
        if any(one in self._own for one in node.all_input_nodes):
            own = frozenset(one for one in node.all_input_nodes if one in self._own)
            return _product_with(node, own) if name in PRODUCTS else _with(node, own)
        return _guarded(node, _called(node), frozenset(self._shared))

    def _get(self, node: fx.Node) -> Action:
        if node in self._own:
            if all(_is_weight(user, node) for user in node.users):
                return lambda step, values: None  # the layer has it
            slot = self._maker.slots.of(self._own[node])
            return lambda step, values: step.leaf(slot)
        value = self._value(node)
        return lambda step, values: value

    def _value(self, node: fx.Node) -> Any:
        """What a ``get_attr`` names."""
        value: Any = self._root
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return value

    def _module(self, node: fx.Node) -> Action:
        layer = self._root.get_submodule(str(node.target))
        (source,) = node.args
        assert isinstance(source, fx.Node)
        if not list(layer.parameters()) and not isinstance(layer, nn.Embedding):
            return _guarded(node, _plain(layer, source), frozenset())
        made = self._maker.make(layer)
        several = isinstance(layer, nn.RNNBase)
        if isinstance(made, Composed):
            return _guarded(node, _composed(made, source, several), frozenset())
        return self._hand(made, source)

    def _hand(self, layer: Layer, source: fx.Node) -> Action:
        token, apply = self._token, cast(Any, _ByHand.apply)

        def action(step: Step, values: dict[fx.Node, Any]) -> Any:
            y = apply(values[source], token, layer, step)
            step.nbytes += y.nbytes
            return y

        return action

    def _linear(self, node: fx.Node) -> Action:
        names = ("input", "weight", "bias")
        given: dict[str, Any] = dict(zip(names, node.args, strict=False))
        given |= node.kwargs

        def parameter(name: str) -> Any:
            one = given.get(name)
            if one is None or one in self._own:
                return None if one is None else self._own[one]
            return self._value(one)

        layer = self._maker.linear(parameter("weight"), parameter("bias"))
        return self._hand(layer, given["input"])


def _writes(node: fx.Node, root: nn.Module) -> bool:
    """Whether a node whose result nobody uses changes something."""
    if node.op == "call_module":
        return bool(getattr(root.get_submodule(str(node.target)), "inplace", False))
    if node.op == "get_attr":
        return False
    return name_of(node).endswith("_") or refused_call(node) is not None


def _is_weight(user: fx.Node, node: fx.Node) -> bool:
    """Whether a node is the weight or bias of a ``linear`` and nothing else in it."""
    return user.target is functional.linear and user.args[0] is not node


def _called(node: fx.Node) -> Action:
    """The function itself."""
    function = function_of(node)
    kwargs = {k: v for k, v in node.kwargs.items() if k != "inplace"}

    def action(step: Step, values: dict[fx.Node, Any]) -> Any:
        args = fx.node.map_arg(node.args, values.__getitem__)
        return function(*args, **fx.node.map_arg(kwargs, values.__getitem__))

    return action


def _guarded(node: fx.Node, inner: Action, shared: frozenset[fx.Node]) -> Action:
    """Makes sure that the samples are still the first axis of what comes out."""
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
    """Whether a constant is the same for all samples."""
    if not isinstance(constant, torch.Tensor):
        return True
    dims = constant.dim()
    return dims < dimensions or (dims == dimensions and constant.shape[0] == 1)


def _plain(layer: nn.Module, source: fx.Node) -> Action:
    """A layer without parameters, over all samples."""
    if isinstance(layer, LAYERS_ALONG):

        def along(step: Step, values: dict[fx.Node, Any]) -> Any:
            x = values[source]
            if layer.dim % x.dim() == 0:
                raise ValueError("a layer works along the axis of the batch")
            return layer(x)

        return along
    if getattr(layer, "inplace", False):
        return lambda step, values: layer(values[source].clone())
    return lambda step, values: layer(values[source])


def _composed(layer: Composed, source: fx.Node, several: bool) -> Action:
    """A layer with parameters, under the autograd of the whole graph."""

    def action(step: Step, values: dict[fx.Node, Any]) -> Any:
        y = layer.applied(step.apart(values[source]), step.leaf).flatten(0, 1)
        return (y,) if several else y

    return action


def _with(node: fx.Node, own: frozenset[fx.Node]) -> Action:
    """A function of values and parameters, value by value."""
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


def _product_with(node: fx.Node, own: frozenset[fx.Node]) -> Action:
    """``x @ parameter``, a matrix for each model."""
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
