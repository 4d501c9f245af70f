"""The registry of stacked layers: each file beside this one registers its own."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from fedtorch.compiled.loop import Compiled, Offsets
from fedtorch.stacked import functions
from fedtorch.stacked.layers.base import Composed, Function, Layer
from fedtorch.stacked.rows import Slots
from fedtorch.stacked.workspace import Workspace


class Kind(NamedTuple):
    """Computes a type of torch layer for many models."""

    make: Callable[["Maker", Any], Layer]
    refusal: Callable[[Any], str | None]
    compiled: Callable[[Any, Offsets], Compiled | None]
    call: Callable[[Any, torch.Tensor], torch.Tensor]
    returns_tuple: bool


_KINDS: dict[type[nn.Module], Kind] = {}
PARAMETERS_OF: dict[Any, tuple[str, ...]] = {}
"""Functions ``f(input, *parameters)`` that are a layer, and their parameters' names."""
_TYPE_OF: dict[Any, type[nn.Module]] = {}


def _refuses_indices(layer: Any) -> str | None:
    return "returns indices too" if getattr(layer, "return_indices", False) else None


def _call(layer: Any, samples: torch.Tensor) -> torch.Tensor:
    if getattr(layer, "inplace", False):
        samples = samples.clone()
    y: torch.Tensor = layer(samples)
    return y


def _over_samples(maker: "Maker", layer: nn.Module) -> Layer:
    """Calls a layer without parameters once, for the samples of all models."""
    assert not [*layer.parameters()], "a layer with parameters is registered with make"
    call = kind_of(layer).call

    def function(x: torch.Tensor, _: Sequence[torch.Tensor | None]) -> torch.Tensor:
        y = call(layer, x.flatten(0, 1))
        return y.reshape(*x.shape[:2], *y.shape[1:])

    return maker.compose(function)


def register(
    *types: type[nn.Module],
    make: Callable[["Maker", Any], Layer] = _over_samples,
    refusal: Callable[[Any], str | None] = _refuses_indices,
    compiled: Callable[[Any, Offsets], Compiled | None] = lambda layer, at: None,
    call: Callable[[Any, torch.Tensor], torch.Tensor] = _call,
    returns_tuple: bool = False,
    function: tuple[Callable[..., Any], tuple[str, ...]] | None = None,
    by_value: Iterable[str] = (),
    along: Iterable[str] = (),
    of_samples: Iterable[str] = (),
) -> None:
    """Registers how layers of these types are computed for many models.

    A subclass of a type is not known by it, since it may compute something else.

    Args:
        types: the torch layers.
        make: makes the stacked layer of a torch layer. Without it, the torch layer
            itself is called, with the samples of all models as one batch.
        refusal: says why a torch layer is left to vmap, in words that follow its name,
            or returns None.
        compiled: describes a torch layer to the compiled loop, given where its
            parameters lie; None: the loop does not know it.
        call: calls a torch layer without parameters on samples (M, ...).
        returns_tuple: the torch layer returns a tuple, which begins with its output.
        function: a function that is the same layer, called with the input and then
            with parameters, and their names in the layer.
        by_value: names of torch functions that treat each value by itself.
        along: names of those whose second argument is the axis they work along.
        of_samples: names of those that treat each sample by itself.
    """
    for one in types:
        _KINDS[one] = Kind(make, refusal, compiled, call, returns_tuple)
    if function is not None:
        PARAMETERS_OF[function[0]], _TYPE_OF[function[0]] = function[1], types[0]
    functions.BY_VALUE.update(by_value)
    functions.ALONG.update(dict.fromkeys(along, 1))
    functions.OF_SAMPLES.update(of_samples)


def kind_of(layer: nn.Module) -> Kind:
    """Returns how a layer is computed; :func:`refusal` must have returned None."""
    return _KINDS[type(layer)]


def describe(layer: nn.Module, at: Offsets) -> Compiled | None:
    """Describes a layer to the compiled loop; returns None if the loop lacks it."""
    return kind_of(layer).compiled(layer, at)


def refusal(layer: nn.Module) -> str | None:
    """Says why a layer is left to vmap, in words that follow its name, or None."""
    kind = _KINDS.get(type(layer))
    if kind is None:
        return "is not among the layers that are stacked"
    return kind.refusal(layer)


class Maker:
    """Makes the layers of one model, which share a workspace."""

    def __init__(self, workspace: Workspace, slots: Slots) -> None:
        self.workspace, self.slots = workspace, slots

    def count(self, layer: nn.Module) -> None:
        """Counts the uses of a layer's parameters; call it before any layer is made."""
        for parameter in layer.parameters():
            self.slots.count(parameter)

    def make(self, layer: nn.Module) -> Layer:
        """Makes the stacked layer; :func:`refusal` must have returned None for it."""
        return kind_of(layer).make(self, layer)

    def make_call(self, function: Any, parameters: Any) -> Layer:
        """Makes the stacked layer of a function; ``parameters`` has attributes."""
        return _KINDS[_TYPE_OF[function]].make(self, parameters)

    def compose(
        self, function: Function, parameters: Sequence[torch.Tensor | None] = ()
    ) -> Composed:
        """Makes a layer of stacked torch operations, with autograd inside."""
        slots = [self.slots.of(parameter) for parameter in parameters]
        return Composed(self.workspace, function, slots)
