"""The ways to compute the gradients of many models, and which one a module takes."""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from fedcore.errors import NotStackableError
from fedcore.merging import PARAMETER
from fedcore.params import ParamSpec
from fedtorch.compiled.steps import CompiledSteps, compile_steps
from fedtorch.stacked.chain import chain, flatten
from fedtorch.stacked.cross_entropy import CrossEntropy
from fedtorch.stacked.graphs.graph import graph
from fedtorch.stacked.graphs.loss import loss_of
from fedtorch.stacked.layers.registry import Maker, describe
from fedtorch.stacked.rows import Batch, Rows, Slots
from fedtorch.stacked.vmapped import Vmapped
from fedtorch.stacked.workspace import Workspace


class Way(Protocol):
    """Computes losses, and writes gradients into ``rows.g_ND``."""

    words: str
    """In words, for the log."""

    overhead: int
    """How many times a cache's bytes it is worth to fill with one step."""

    @property
    def per_sample(self) -> Mapping[torch.Size, float] | None:
        """Bytes that a step takes for each sample, by the shape of a sample.

        A step adds the shape of its samples. None: a step takes all models at once.
        """

    def step(self, rows: Rows, x: Any, y: Any, batch: Batch) -> Any:
        """Returns the losses (N,), in NumPy or torch; tensors are (N, B, ...)."""


class Chosen(NamedTuple):
    """The way that was chosen for a module."""

    way: Way
    sure: bool
    """Whether its gradients are right without a comparison."""
    compiled: CompiledSteps | None = None


def choose(
    module: nn.Module,
    spec: ParamSpec,
    loss: Callable[[Any, Any], torch.Tensor],
    device: torch.device,
) -> Chosen:
    """Chooses layer by layer if all layers are known, else the graph, else vmap."""
    moving = [tensor.name for tensor in spec.tensors if tensor.merge != PARAMETER]
    if moving:
        why = f"training changes buffer {moving[0]!r}"
        return Chosen(Vmapped(module, spec, loss, why), sure=True)
    stacked, sure = loss_of(loss)
    layers = flatten(module)
    maker = Maker(Workspace(device), Slots(spec, module))
    try:
        if layers is None:
            return Chosen(graph(module, maker, stacked), sure=False)
        way, compiled = chain(layers, maker, stacked), None
    except NotStackableError as refused:
        return Chosen(Vmapped(module, spec, loss, str(refused)), sure=True)
    if device.type == "cpu" and isinstance(stacked, CrossEntropy):
        compiled = compile_steps(layers, spec, describe)
    return Chosen(way, sure, compiled)


def copy_module(module: nn.Module) -> nn.Module:
    """Copies a module; frozen parameters and buffers are shared with the original.

    Raises:
        NotStackableError: the module cannot be copied.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, torch.jit.ScriptModule):
            raise NotStackableError(
                f"layer {name!r} is compiled by torch.jit; give the module that it was "
                "compiled from, or compute its clients one by one"
            )
    frozen = [p for p in module.parameters() if not p.requires_grad]
    shared = {id(tensor): tensor for tensor in [*frozen, *module.buffers()]}
    try:
        return copy.deepcopy(module, shared)
    except Exception as error:
        raise NotStackableError(
            f"the module cannot be copied ({error}); compute its clients one by one"
        ) from error


def copy_loss(loss: Any) -> Any:
    """Copies a loss that is an object, since tracing may write into it.

    Its parameters are shared with the original. One that cannot be copied is used as
    it is.
    """
    if inspect.isroutine(loss):
        return loss
    is_module = isinstance(loss, nn.Module)
    shared = {id(p): p for p in loss.parameters()} if is_module else {}
    try:
        return copy.deepcopy(loss, shared)
    except Exception:  # noqa: BLE001 -- copying an object of the user's
        return loss


def first_sentence(error: BaseException) -> str:
    """Returns the first sentence of an error."""
    if "data-dependent control flow" in str(error):
        return "it calls .item() or branches on values"
    return str(error).strip().split("\n")[0].split(". ")[0][:200]
