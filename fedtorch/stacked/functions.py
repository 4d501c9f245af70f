"""Which functions of torch treat each sample of a batch by itself.

The batch is the first axis. A function is known if it works value by value, along axes
that it names, on the shape of a sample, or on images. A module that calls any other
function is left to vmap. Functions of a layer, as ``relu``, are added where that layer
is registered.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

BY_VALUE = {
    "add", "sub", "mul", "div", "truediv", "floordiv", "true_divide", "neg", "pow",
    "abs", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "square", "reciprocal",
    "sin", "cos", "erf", "clamp", "clip", "clamp_min", "clamp_max", "maximum",
    "minimum", "where", "masked_fill", "sign", "floor", "ceil", "round", "float",
    "long", "bool", "half", "contiguous", "eq", "ne", "lt", "le", "gt", "ge",
    "logical_not", "logical_and", "logical_or", "multiply", "subtract", "divide",
    "negative", "lerp", "addcmul",
}  # fmt: skip
# Functions that are given an axis, and the position of the axis among the arguments.
ALONG = {
    "mean": 1, "sum": 1, "prod": 1, "amax": 1, "amin": 1, "var": 1, "std": 1,
    "argmax": 1, "argmin": 1, "cumsum": 1, "logsumexp": 1, "norm": 2, "normalize": 2,
    "squeeze": 1, "unsqueeze": 1, "cat": 1, "concat": 1, "stack": 1, "chunk": 2,
    "split": 2, "unbind": 1, "select": 1, "narrow": 1, "flip": 1, "flatten": 1,
}  # fmt: skip
SWAPS = frozenset(["transpose", "permute", "swapaxes", "movedim"])
SHAPES = frozenset(["view", "reshape", "unflatten"])
OF_SAMPLES = {"interpolate", "scaled_dot_product_attention", "one_hot"}
PRODUCTS = frozenset(["matmul", "bmm"])
SIZES = frozenset(["size", "dim", "ndimension"])
_IN_PLACE: dict[Any, Callable[..., Any]] = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
}


def name_of(node: fx.Node) -> str:
    """Returns the name of a function or method, the same for all forms of it."""
    if node.op == "call_method":
        return str(node.target)
    target = _IN_PLACE.get(node.target, node.target)
    return str(getattr(target, "__name__", target)).lower()


def function_of(node: fx.Node) -> Callable[..., Any]:
    """Returns what a node calls; methods as functions, and nothing in place."""
    called: Any = node.target
    if node.op == "call_method":
        called = getattr(torch.Tensor, called)
    function: Callable[..., Any] = _IN_PLACE.get(called, called)
    return function


def refusal_of_call(node: fx.Node) -> str | None:
    """Says why a call may mix the samples of a batch, or returns None."""
    name = name_of(node)
    over = node.target in _IN_PLACE or node.kwargs.get("inplace") is True
    if over and len(node.all_input_nodes[0].users) > 1:
        return f"{name}() writes over a value that is used again"
    if name in ALONG:
        return _refusal_of_axis(name, axis_of(node))
    if name in SWAPS:
        axes = _flat(node.args[1:]) + _flat(tuple(node.kwargs.values()))
        fixed = axes[:1] == [0] if name == "permute" else 0 not in axes
        return None if fixed else f"{name}() moves the axis of the batch"
    if name == "unflatten":
        return _refusal_of_axis(name, node.args[1] if len(node.args) > 1 else None)
    known = (BY_VALUE, SHAPES, OF_SAMPLES, PRODUCTS, SIZES, {"getitem", "getattr"})
    if any(name in names for names in known):
        return None
    return f"the function {name}() is not among those that are stacked"


def axis_of(node: fx.Node) -> Any:
    """Returns the axis or axes that a call of a function in :data:`ALONG` names."""
    name = name_of(node)
    for key in ("dim", "axis", "start_dim"):
        if key in node.kwargs:
            return node.kwargs[key]
    if len(node.args) > ALONG[name]:
        rest = node.args[ALONG[name] :]
        return rest if name == "flip" else rest[0]
    return {"glu": -1, "normalize": 1}.get(name, 0 if name in _FIRST else None)


_FIRST = ("cat", "concat", "stack", "chunk", "split", "unbind", "flatten")


def _refusal_of_axis(name: str, axis: Any) -> str | None:
    axes = _flat((axis,))
    if all(type(one) is int and one != 0 for one in axes) and axes:
        return None
    return f"{name}() works along the axis of the batch"


def _flat(args: Any) -> list[Any]:
    found: list[Any] = []
    for arg in args:
        found += _flat(arg) if isinstance(arg, tuple | list) else [arg]
    return found


def spares_the_batch(name: str, axis: Any, dimensions: int) -> bool:
    """Returns whether axes that are counted from the end leave out the first one."""
    extra = 1 if name in ("unsqueeze", "stack") else 0
    return all(one % (dimensions + extra) != 0 for one in _flat((axis,)))
