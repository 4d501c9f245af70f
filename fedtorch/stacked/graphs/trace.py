"""Traces the graph of a module, if it is the same for every batch."""

import random
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from fedcore.errors import NotStackableError
from fedtorch.stacked.layers.registry import refusal


class _Called(nn.Module):
    """A module called with its input alone, as the platform does."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        return self.module(x)


class _ModuleTracer(fx.Tracer):
    """Traces into everything but known layers and torch's own."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return refusal(m) is None or super().is_leaf_module(m, module_qualified_name)


def trace(module: nn.Module) -> tuple[fx.Graph, nn.Module]:
    """Returns the module's graph, and the root that its names are relative to.

    Raises:
        NotStackableError: it depends on values, or draws at random while it is traced.
    """
    for name, layer in module.named_modules():
        if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks:
            raise NotStackableError(f"layer {name!r} has hooks")
    root = _Called(module)
    return follow(_ModuleTracer(), root), root


def follow(tracer: fx.Tracer, root: Any) -> fx.Graph:
    """Traces the graph of a module or function.

    Raises:
        NotStackableError: it depends on values, or draws at random while it is traced.
    """
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
    theirs = np.random.get_state()  # noqa: NPY002 -- the user's code may draw from it
    return torch.get_rng_state(), random.getstate(), str(theirs)
