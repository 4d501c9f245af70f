"""Losses that are written as functions, recognised by their graph."""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from fedcore.errors import NotStackableError
from fedtorch.stacked.cross_entropy import CrossEntropy
from fedtorch.stacked.functions import (
    SIZES,
    SWAPS,
    function_of,
    name_of,
    refusal_of_call,
)
from fedtorch.stacked.graphs.trace import follow
from fedtorch.stacked.losses import (
    Known,
    Loss,
    RowByRow,
    Weighed,
    recognise,
    recognise_call,
)

# What may happen to outputs and targets on the way into a known loss.
_SHAPING = frozenset(["view", "reshape", "flatten"])
_GENTLE = frozenset(["squeeze", "unsqueeze", "float", "long", "contiguous"]) | SWAPS


def loss_of(loss: Callable[[Any, Any], torch.Tensor]) -> tuple[Loss, bool]:
    """Returns the stacked form of a loss, and whether it needs no comparison."""
    found = recognise(loss)
    if found is not None:
        return _stack(found), True
    try:
        return _recognise(loss)
    except NotStackableError:
        return RowByRow(loss), True


def _stack(found: Known) -> Loss:
    """Returns the stacked loss; the plain cross-entropy needs no autograd."""
    settings = found.settings
    plain = (
        found.function is functional.cross_entropy
        and "weight" not in settings
        and not settings.get("label_smoothing")
        and settings.get("ignore_index", -100) < 0
    )
    return CrossEntropy(found) if plain else Weighed(found)


class _Tracer(fx.Tracer):
    """Traces into the modules that a loss calls."""

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        return forward(*args, **kwargs)


def _recognise(loss: Callable[[Any, Any], torch.Tensor]) -> tuple[Loss, bool]:
    """Recognises a known loss of outputs and targets, or of other shapes of them.

    Raises:
        NotStackableError: it is something else.
    """
    tracer = _Tracer()

    def call(out: Any, y: Any) -> Any:
        return loss(out, y)

    nodes = list(follow(tracer, call).nodes)
    last = nodes[-1].args[0]
    if not isinstance(last, fx.Node) or last.op != "call_function":
        raise NotStackableError("it does not end with a known loss")
    out, y, *_ = nodes
    settings = {
        name: _constant(tracer.root, value) for name, value in last.kwargs.items()
    }
    given = [settings.pop(name, None) for name in ("input", "target")]
    given = [*last.args, *(one for one in given if one is not None)]
    found = recognise_call(last.target, settings)
    if found is None or len(given) != 2:
        raise NotStackableError("it does not end with a known loss")
    if given == [out, y]:
        return _stack(found), True
    between = [one for one in nodes[2:-2] if one.op != "get_attr"]
    for node in between:
        _check(node)
    return Weighed(found, _preparation(out, y, between, given)), False


def _constant(root: Any, value: Any) -> Any:
    """Returns a keyword argument, which must not depend on the batch."""
    if not isinstance(value, fx.Node):
        return value
    if value.op != "get_attr":
        raise NotStackableError("its settings depend on the batch")
    return getattr(root, str(value.target))


def _check(node: fx.Node) -> None:
    name = name_of(node)
    if name in _SHAPING or name in SIZES or name in ("getattr", "getitem"):
        return
    if name not in _GENTLE or refusal_of_call(node) is not None:
        raise NotStackableError(f"{name}() comes before the known loss")


def _preparation(
    out: fx.Node, y: fx.Node, between: list[fx.Node], given: list[Any]
) -> Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Returns a function that runs the nodes before the loss."""

    def prepare(
        outputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        values: dict[fx.Node, Any] = {out: outputs, y: targets}
        for node in between:
            args = fx.node.map_arg(node.args, values.__getitem__)
            kwargs = fx.node.map_arg(node.kwargs, values.__getitem__)
            values[node] = function_of(node)(*args, **kwargs)
        return values[given[0]], values[given[1]]

    return prepare
