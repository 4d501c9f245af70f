"""Decides for each node of a graph whether it is known, and what it computes."""

from functools import reduce
from types import SimpleNamespace
from typing import Any

import torch
from torch import fx, nn

from fedcore.errors import NotStackableError
from fedtorch.stacked.functions import (
    BY_VALUE,
    PRODUCTS,
    SHAPES,
    SIZES,
    name_of,
    refusal_of_call,
)
from fedtorch.stacked.graphs import actions
from fedtorch.stacked.graphs.actions import Action
from fedtorch.stacked.layers.base import Composed
from fedtorch.stacked.layers.registry import PARAMETERS_OF, Maker, kind_of, refusal


class Planner:
    """Looks at every node of a graph once, and returns its action."""

    def __init__(self, followed: fx.Graph, root: nn.Module, maker: Maker) -> None:
        self._nodes = list(followed.nodes)
        self._root, self._maker = root, maker
        self._own: dict[fx.Node, torch.Tensor] = {}  # parameters of each model
        self._shared: set[fx.Node] = set()  # constants
        self._sizes: set[fx.Node] = set()  # numbers, from shapes

    def plan(self) -> tuple[list[tuple[fx.Node, Action]], fx.Node]:
        """Returns the action of each node, and the node of the output.

        Raises:
            NotStackableError: a node is not known, or may mix samples.
        """
        live = self._live()
        for node in self._nodes:
            if node in live:
                self._classify(node)
            elif _writes(node, self._root):
                raise NotStackableError(f"{node.target} writes over a value")
        self._token = torch.zeros((), requires_grad=True)
        plan: list[tuple[fx.Node, Action]] = []
        for node in self._nodes:
            if node.op == "output":
                (output,) = node.args
                if not isinstance(output, fx.Node):
                    raise NotStackableError("its output is not one tensor")
                return plan, output
            if node in live:
                plan.append((node, self._action(node)))
        raise NotStackableError("its graph has no output")

    def _live(self) -> set[fx.Node]:
        """Returns the nodes that the output depends on, and the inputs."""
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
            if kind_of(layer).returns_tuple and any(
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
        if node.target in PARAMETERS_OF:
            self._call_with_parameters(node)
            return
        constant = self._shared | self._sizes  # as part of a table, up to a length
        if not self._shared.isdisjoint(inputs) and constant.issuperset(inputs):
            self._shared.add(node)
            return
        shape = name == "getattr" and node.args[1] in ("shape", "ndim")
        if name in SIZES or shape or (inputs and self._sizes.issuperset(inputs)):
            self._sizes.add(node)
            return
        reason = refusal_of_call(node)
        if reason is None and name == "getattr":
            reason = f"the attribute {node.args[1]!r} of a tensor is not known"
        if reason is None and name == "getitem":
            reason = self._refusal_of_item(node)
        sizes = any(one in self._sizes for one in inputs)
        if reason is None and sizes and name not in (*SHAPES, "getitem"):
            reason = f"{name}() is given a size, which may be that of the batch"
        own = any(one in self._own for one in inputs)
        if reason is None and own and name not in BY_VALUE | PRODUCTS:
            reason = f"{name}() is given a parameter"
        if reason is not None:
            raise NotStackableError(reason)

    def _call_with_parameters(self, node: fx.Node) -> None:
        """Counts the parameters of a function that is a layer."""
        for one in list(_arguments(node).values())[1:]:
            if one is None:
                continue
            if not isinstance(one, fx.Node) or one.op != "get_attr":
                raise NotStackableError(f"{name_of(node)}() is given computed weights")
            if one in self._own:
                self._maker.slots.count(self._own[one])

    def _refusal_of_item(self, node: fx.Node) -> str | None:
        """Says why an index may pick samples; ``x[:, ...]`` picks within them."""
        source, index = node.args
        first = index[0] if isinstance(index, tuple) and index else index
        if isinstance(index, str):
            return None
        if isinstance(source, fx.Node) and type(index) is int:
            tuples = ("chunk", "split", "unbind", "getitem")
            if source.op in ("placeholder", "call_module") or name_of(source) in tuples:
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
        if node.target in PARAMETERS_OF:
            return self._layer_call(node)
        if node in self._shared or node in self._sizes:
            return actions.call(node)
        name = name_of(node)
        if any(one in self._own for one in node.all_input_nodes):
            own = frozenset(one for one in node.all_input_nodes if one in self._own)
            if name in PRODUCTS:
                return actions.product_with(node, own)
            return actions.with_parameters(node, own)
        return actions.guard(node, actions.call(node), frozenset(self._shared))

    def _get(self, node: fx.Node) -> Action:
        if node in self._own:
            if all(_is_weight(user, node) for user in node.users):
                return lambda step, values: None  # the layer has it
            slot = self._maker.slots.of(self._own[node])
            return lambda step, values: step.leaf(slot)
        value = self._value(node)
        return lambda step, values: value

    def _value(self, node: fx.Node) -> Any:
        """Returns what a ``get_attr`` names."""
        return reduce(getattr, str(node.target).split("."), self._root)

    def _module(self, node: fx.Node) -> Action:
        layer = self._root.get_submodule(str(node.target))
        (source,) = node.args
        assert isinstance(source, fx.Node)
        kind = kind_of(layer)
        if not list(layer.parameters()):  # called with the samples of all models
            return actions.guard(
                node, lambda step, values: kind.call(layer, values[source]), frozenset()
            )
        made = self._maker.make(layer)
        if isinstance(made, Composed):
            action = actions.compose(made, source, kind.returns_tuple)
            return actions.guard(node, action, frozenset())
        return actions.by_hand(made, source, self._token)

    def _layer_call(self, node: fx.Node) -> Action:
        given = _arguments(node)

        source = given.pop("input")
        values = {k: None if v is None else self._value(v) for k, v in given.items()}
        layer = self._maker.make_call(node.target, SimpleNamespace(**values))
        return actions.by_hand(layer, source, self._token)


def _arguments(node: fx.Node) -> dict[str, Any]:
    """Returns the input and the parameters of a function that is a layer, by name.

    Raises:
        NotStackableError: it is given something else.
    """
    names = ("input", *PARAMETERS_OF[node.target])
    if len(node.args) > len(names) or not set(node.kwargs) <= set(names):
        raise NotStackableError(f"{name_of(node)}() is given more than parameters")
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    return {name: given.get(name) for name in names}


def _writes(node: fx.Node, root: nn.Module) -> bool:
    """Returns whether a node whose result is not used changes something."""
    if node.op == "call_module":
        return bool(getattr(root.get_submodule(str(node.target)), "inplace", False))
    if node.op == "get_attr":
        return False
    return name_of(node).endswith("_") or refusal_of_call(node) is not None


def _is_weight(user: fx.Node, node: fx.Node) -> bool:
    """Returns whether a function that is a layer uses a node only as a parameter."""
    return user.target in PARAMETERS_OF and user.args[0] is not node
