"""Runs a module once on a batch, and counts what each layer does.

torch tells of every function that is called in the forward pass, so that what a module
computes beside its layers (a sum, an attention of its own) is counted too. Hooks say in
which layer the module is. Nothing of torch._dynamo is imported.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from fedcore.errors import UserCodeError
from fedcore.planning.paleo import Layer
from fedtorch.flops.rules import RULES, UNKNOWN
from fedtorch.flops.work import Work, plus
from fedtorch.modules import trainable
from fedtorch.raised import place_of
from fedtorch.tensors import to_targets, to_tensor

LOSS = "loss"  # the row of what is computed outside of the module


class Counted(NamedTuple):
    """The layers of a step, in the order in which they run."""

    layers: list[Layer]
    unknown: list[str]
    """Operations that no rule is known for, with their layers: counted as one FLOP for
    each value."""


def count_layers(
    module: nn.Module, loss: Callable[[Any, Any], torch.Tensor], x: Any, y: Any
) -> Counted:
    """Counts the work of one training step on a batch.

    Args:
        module: in the state in which it is trained; its weights are not changed.
        loss: of outputs and targets.
        x: the inputs of a batch, as the module takes them.
        y: its targets.

    Raises:
        UserCodeError: a layer or the loss raised, for example since shapes differ.
    """
    module.train()
    counter = _Counter()
    with _in_layers(module, counter):
        try:
            with counter:
                output = module(to_tensor(x))
            counter.place = LOSS
            with counter:
                loss(output, to_targets(y))
        except Exception as error:
            where = place_of(error, module)
            raise UserCodeError(
                f"{where} raised {type(error).__name__} on a batch: {error}"
            ) from error
    return Counted(counter.layers(module), list(counter.unknown))


class _Counter(TorchFunctionMode):
    """Adds up the work of each layer while functions of torch are called."""

    def __init__(self) -> None:
        super().__init__()
        self.place = ""
        self._works: dict[str, dict[str, Work]] = {}
        self.unknown: dict[str, None] = {}

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        out = func(*args, **named)
        name = getattr(func, "__name__", "")
        kind, rule = RULES.get(name, ("", UNKNOWN))
        if not kind:
            if not _makes_values(out):
                return out
            kind = name
            place = self.place or "the module itself"
            self.unknown[f"{name} in {place}"] = None
        work = rule(args, named, out)
        if any(work):
            own = self._works.setdefault(self.place, {})
            own[kind] = plus(own.get(kind, Work()), work)
        return out

    def layers(self, module: nn.Module) -> list[Layer]:
        """Returns a row for each layer; its kind is that of its largest part."""
        trained = {id(p) for p in trainable(module).values()}
        parts = dict(module.named_modules())
        rows = []
        for place, works in self._works.items():
            layer = parts.get(place)
            own = [] if layer is None or place == LOSS else layer.parameters(False)
            total = Work()
            for work in works.values():
                total = plus(total, work)
            rows.append(
                Layer(
                    name=place or "module",
                    kind=max(works, key=lambda kind: works[kind].flops_forward),
                    **total._asdict(),
                    parameters=sum(p.numel() for p in own if id(p) in trained),
                )
            )
        return rows


def _makes_values(out: Any) -> bool:
    """Returns whether a function returned tensors of numbers with a fraction."""
    if isinstance(out, list | tuple):
        return any(map(_makes_values, out))
    return isinstance(out, torch.Tensor) and out.is_floating_point()


@contextmanager
def _in_layers(module: nn.Module, counter: _Counter) -> Iterator[None]:
    """Tells the counter in which layer the module is, during the block."""
    names = {id(layer): name for name, layer in module.named_modules()}
    outer: list[str] = []

    def enter(layer: nn.Module, inputs: Any) -> None:
        outer.append(counter.place)
        counter.place = names[id(layer)]

    def leave(layer: nn.Module, inputs: Any, output: Any) -> None:
        counter.place = outer.pop()

    hooks = []
    for layer in module.modules():
        hooks.append(layer.register_forward_pre_hook(enter))
        hooks.append(layer.register_forward_hook(leave))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
