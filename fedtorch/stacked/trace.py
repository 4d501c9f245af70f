"""The graph of a module, where following it once says what it does with any batch."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from fedcore.errors import NotStackableError
from fedtorch.stacked.layers import refusal


class _Called(nn.Module):
    """A module called with its input alone, as the platform does."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        return self.module(x)


class _ModuleTracer(fx.Tracer):
    """Goes into everything but torch's own layers."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return refusal(m) is None or super().is_leaf_module(m, module_qualified_name)


class _LossTracer(fx.Tracer):
    """Goes into the modules of a loss, wherever the function has them from."""

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        return forward(*args, **kwargs)


def traced(module: nn.Module) -> tuple[fx.Graph, nn.Module]:
    """The module's graph, and the root that its names are relative to.

    Raises:
        NotStackableError: it depends on values, or draws at random while it is traced.
    """
    for name, layer in module.named_modules():
        if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks:
            raise NotStackableError(f"layer {name!r} has hooks")
    root = _Called(module)
    graph = _follow(_ModuleTracer(), root)
    graph.eliminate_dead_code()
    return graph, root


def traced_loss(loss: Callable[[Any, Any], Any]) -> tuple[fx.Graph, Any]:
    """The graph of a loss function of outputs and targets.

    Raises:
        NotStackableError: as for modules.
    """
    tracer = _LossTracer()
    graph = _follow(tracer, lambda out, y: loss(out, y))
    return graph, tracer.root


def _follow(tracer: fx.Tracer, root: Any) -> fx.Graph:
    before = _random_state()
    try:
        graph = tracer.trace(root)
    except Exception as error:
        raise NotStackableError(f"its graph depends on values ({error})") from error
    finally:
        after = _random_state()
        torch.set_rng_state(before[0])
    if not (
        torch.equal(before[0], after[0])
        and before[1] == after[1]
        and before[2] == after[2]
    ):
        raise NotStackableError("it draws random numbers of its own")
    return graph


def _random_state() -> tuple[torch.Tensor, Any, str]:
    return torch.get_rng_state(), random.getstate(), str(np.random.get_state())
