"""The ready models: sizes, a step of training, and the way that they stack."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from fedcore.rng import Key
from fedtorch import models
from tests.fedtorch.stacks import (
    BY_LAYER,
    GRAPH,
    assert_close,
    flat,
    one_by_one,
)


class Ready(NamedTuple):
    """What is known of a model."""

    build: Callable[[], nn.Module]
    parameters: int
    trained: int
    way: str
    shape: tuple[int, ...]
    classes: int
    text: bool = False


READY = {
    "softmax": Ready(
        lambda: models.softmax_regression(64, 10), 650, 650, BY_LAYER, (8, 8), 10
    ),
    "mlp": Ready(lambda: models.mlp(64, 32, 10), 2410, 2410, BY_LAYER, (64,), 10),
    "2nn": Ready(
        lambda: models.mlp(784, 200, 200, 10), 199_210, 199_210, BY_LAYER, (28, 28), 10
    ),
    "fed_avg_cnn": Ready(
        models.fed_avg_cnn, 1_663_370, 1_663_370, BY_LAYER, (1, 28, 28), 10
    ),
    "small_cnn": Ready(models.small_cnn, 106_122, 106_122, BY_LAYER, (1, 28, 28), 10),
    "cnn_1d": Ready(models.cnn_1d, 23_847, 23_847, BY_LAYER, (6, 100), 7),
    "res_net": Ready(models.res_net, 77_850, 77_850, GRAPH, (3, 8, 8), 10),
    "char_lstm": Ready(models.char_lstm, 822_570, 822_570, GRAPH, (5,), 90, text=True),
    "lora_transformer": Ready(
        models.lora_transformer, 121_856, 2048, GRAPH, (6,), 90, text=True
    ),
}


@pytest.mark.parametrize("name", READY)
def test_a_model_has_the_parameters_that_it_says(name: str) -> None:
    ready = READY[name]
    module = ready.build()
    assert sum(p.numel() for p in module.parameters()) == ready.parameters
    assert flat(ready.build).spec.dim == ready.trained


@pytest.mark.parametrize("name", READY)
def test_a_model_learns_and_stacks(name: str) -> None:
    ready = READY[name]
    model = flat(ready.build)
    x, y = drawn(ready, 2, 3)
    start_D = model.initial(Key.root(0))
    w_ND = np.stack([start_D, start_D * np.float32(0.9)])
    stacked = model.stack()
    sizes = np.array([3, 2])
    loss_N, g_ND = stacked.gradient(w_ND, x, y, sizes)
    assert_close((loss_N, g_ND), one_by_one(model, w_ND, x, y, [3, 2]))
    assert stacked.how.startswith(ready.way)
    first_N = loss_N.copy()
    for _ in range(3):
        w_ND = w_ND - np.float32(0.02) * g_ND
        loss_N, g_ND = stacked.gradient(w_ND, x, y, sizes)
    assert (loss_N < first_N).all()


def drawn(ready: Ready, n: int, b: int) -> tuple[Any, Any]:
    """Random samples."""
    chance = torch.Generator().manual_seed(0)
    shape = (n, b, *ready.shape)
    if ready.text:
        return (
            torch.randint(0, ready.classes, shape, generator=chance),
            torch.randint(0, ready.classes, shape, generator=chance),
        )
    y = torch.randint(0, ready.classes, (n, b), generator=chance)
    return torch.rand(shape, generator=chance), y


def test_the_frozen_weights_of_the_transformer_follow_from_its_seed() -> None:
    first, second = (flat(models.lora_transformer).spec for _ in range(2))
    other = flat(lambda: models.lora_transformer(seed=1)).spec
    assert first.frozen == second.frozen != other.frozen


def test_the_adapters_start_where_the_frozen_model_is() -> None:
    module = models.lora_transformer()
    x = torch.arange(6)[None]
    before = module(x)
    for name, parameter in module.named_parameters():
        if "down" in name:
            nn.init.normal_(parameter)
    assert torch.equal(module(x), before)
