"""A layer is one file that registers it; this file is the one of three toy layers."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import fx, nn

from fedtorch.compiled import loop
from fedtorch.compiled.loop import Compiled, Offsets
from fedtorch.stacked.layers.base import Layer
from fedtorch.stacked.layers.registry import Maker, register
from tests.fedtorch.stacks import (
    BY_LAYER,
    CLASSES,
    GRAPH,
    Case,
    assert_close,
    batches,
    flat,
    models,
    one_by_one,
)


@fx.wrap  # as torch's own functions, it is one node of a graph
def scaled(x: Any, weight: Any) -> Any:
    """Each feature times a number of its own."""
    return x * weight


class Scale(nn.Module):
    """Each feature times a number of its own."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 2, features))

    def forward(self, x: Any) -> Any:
        return scaled(x, self.weight)


def _make(maker: Maker, layer: Any) -> Layer:
    def function(x: Any, parameters: Any) -> Any:
        (weight,) = parameters  # (N, F), for x (N, B, F)
        return x * weight[:, None]

    return maker.compose(function, (layer.weight,))


class Centre(nn.Module):
    """Subtracts the mean of each sample; it branches, so no graph can follow it."""

    def forward(self, x: Any) -> Any:
        return x - x.mean(-1, keepdim=True) if x.sum() > -1e9 else x


class Vector(nn.Module):
    """Flattens what is not flat yet."""

    def forward(self, x: Any) -> Any:
        return x.reshape(len(x), -1)


def _compiled(layer: Any, at: Offsets) -> Compiled:
    return lambda layers, shape: (int(np.prod(shape)),)


register(Scale, make=_make, function=(scaled, ("weight",)))
register(Centre)
register(Vector, compiled=_compiled)


class Calls(nn.Module):
    """Calls the function with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 4))
        self.centre, self.last = Centre(), nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.last(self.centre(scaled(x, self.weight)))


TOYS = {
    "layer": (
        lambda: nn.Sequential(Scale(4), Centre(), nn.Linear(4, CLASSES)),
        BY_LAYER + "1 Scale, 1 Centre, 1 Linear)",
    ),
    "function": (Calls, GRAPH + " its graph (1 Centre, 1 Linear)"),
    "compiled": (
        lambda: nn.Sequential(Vector(), nn.Linear(4, CLASSES)),
        BY_LAYER + "1 Vector, 1 Linear)",
    ),
}


@pytest.mark.parametrize("name", TOYS)
def test_a_registered_layer_is_stacked(name: str) -> None:
    build, words = TOYS[name]
    model, sizes = flat(build), [3, 1]
    x, y = batches(Case(build, (4,), words), 2, 3, seed=0)
    w_ND = models(model, 2)
    stacked = model.stack()
    found = stacked.gradient(w_ND, x, y, np.array(sizes))
    assert_close(found, one_by_one(model, w_ND, x, y, sizes))
    assert stacked.how.startswith(words)


@pytest.mark.skipif(not loop.available, reason="the loop was not compiled")
def test_its_registration_describes_it_to_the_compiled_loop() -> None:
    for name in TOYS:
        how = flat(TOYS[name][0]).stack().how
        assert how.endswith("compiled loop") == (name == "compiled")
