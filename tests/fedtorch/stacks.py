"""Modules of every kind for the tests of stacked gradients, and the comparison."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedcore.rng import Key
from fedtorch.flat import FlatModule
from fedtorch.tensors import map_tensors

CLASSES = 5


class Case(NamedTuple):
    """A module, the shape of a sample, and the way it should take."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    way: str
    words: int = 0  # inputs are indices below it
    y_shape: tuple[int, ...] = ()


class Residual(nn.Module):
    """Adds what it had, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.second = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.relu = nn.ReLU(inplace=True)
        self.last = nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        before = self.relu(self.norm(self.first(x)))
        x = self.second(before)
        x += before
        return self.last(functional.relu(x).mean((2, 3)))


class OwnParameters(nn.Module):
    """Parameters outside of layers, attention, a recurrent layer and a buffer."""

    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.place = nn.Parameter(torch.linspace(-1, 1, 24).view(4, 6))
        self.gain = nn.Parameter(torch.tensor(1.5))
        self.lstm = nn.LSTM(6, 6, num_layers=2, batch_first=True)
        self.mix = nn.Parameter(torch.linspace(-1, 1, 36).view(6, 6))
        self.last = nn.Parameter(torch.linspace(-1, 1, 30).view(CLASSES, 6))
        self.register_buffer("scale", torch.linspace(0.5, 1, 6))

    def forward(self, x: Any) -> Any:
        x = (self.table(x) + self.place) * self.gain * self.scale
        x, _ = self.lstm(x)
        b, t, e = x.shape
        q = x.view(b, t, 2, 3).transpose(1, 2)
        q = functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        x = q.transpose(1, 2).reshape(b, t, e)
        return functional.linear(x[:, -1] @ self.mix, self.last)


class Tied(nn.Module):
    """A table that is also the last layer, behind two recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(CLASSES, 6)
        self.gru = nn.GRU(6, 6, batch_first=True)
        self.rnn = nn.RNN(6, 6, batch_first=True, bias=False)
        self.last = nn.Linear(6, CLASSES, bias=False)
        self.last.weight = self.table.weight

    def forward(self, x: Any) -> Any:
        x = self.rnn(self.gru(self.table(x))[0])[0]
        return self.last(x).transpose(1, 2)


class Unknown(nn.Module):
    """What only the module itself can say: it looks at the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.last(x - x.mean(0))


class OverTheBatch(nn.Module):
    """Divides by the size of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.last(x) / x.shape[0]


class Wide(nn.Module):
    """An LSTM that is faster one model after the other, and large images."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Conv2d(2, 4, 5, padding=2)
        self.lstm = nn.LSTM(4, 36, num_layers=2, batch_first=True, bias=False)
        self.last = nn.Linear(36, CLASSES)

    def forward(self, x: Any) -> Any:
        x = functional.max_pool2d(self.image(x).tanh(), 30)
        return self.last(self.lstm(x.flatten(2).transpose(1, 2))[0][:, -1])


def half_frozen() -> nn.Module:
    """A frozen layer between others."""
    layers: Any = nn.Sequential(
        nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, CLASSES)
    )
    layers[2].requires_grad_(False)
    layers[3].bias.requires_grad_(False)
    return layers


def tied_chain() -> nn.Module:
    """Two layers of a sequence with one weight."""
    layers: Any = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    layers[2].weight = layers[0].weight
    return nn.Sequential(layers, nn.Linear(4, CLASSES))


def line(*layers: nn.Module, last: int) -> nn.Module:
    """Layers, and a last one to the classes."""
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(last, CLASSES))


BY_LAYER, GRAPH, VMAP = "stacked by layer (", "stacked by layer along", "torch.func"
CASES = {
    "linear": Case(lambda: nn.Linear(4, CLASSES), (4,), BY_LAYER),
    "mlp": Case(
        lambda: nn.Sequential(
            nn.Linear(4, 6), nn.ReLU(), nn.Sequential(nn.Linear(6, CLASSES))
        ),
        (4,),
        BY_LAYER,
    ),
    "wide": Case(lambda: line(nn.Linear(600, 3), nn.ReLU(), last=3), (600,), BY_LAYER),
    "activations": Case(
        lambda: line(
            nn.Linear(4, 6, bias=False), nn.GELU(), nn.ELU(), nn.SiLU(), nn.Sigmoid(),
            nn.LeakyReLU(0.1), nn.Hardtanh(inplace=True), nn.Softplus(),
            nn.Softmax(-1), nn.Dropout(0.0), nn.Identity(), nn.ReLU(), last=6,
        ),
        (4,),
        BY_LAYER,
    ),
    "frozen": Case(half_frozen, (4,), BY_LAYER),
    "tied": Case(tied_chain, (4,), BY_LAYER),
    "conv2d": Case(
        lambda: line(
            nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(3, 4, 2, dilation=2), nn.Tanh(), last=24,
        ),
        (2, 9, 7),
        BY_LAYER,
    ),
    "conv_pool": Case(
        lambda: line(
            nn.ZeroPad2d(1), nn.Conv2d(1, 3, 3, padding="same", bias=False),
            nn.GroupNorm(1, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 1),
            nn.AvgPool2d(2), nn.LayerNorm([2, 2]), last=16,
        ),
        (1, 7, 6),
        BY_LAYER,
    ),
    "conv_groups": Case(
        lambda: line(
            nn.Conv2d(4, 8, 3, groups=2), nn.AdaptiveAvgPool2d(1), last=8
        ),
        (4, 5, 5),
        BY_LAYER,
    ),
    "conv2d_large": Case(
        lambda: line(
            nn.Conv2d(2, 3, 9, padding=4, stride=(1, 2), bias=False), nn.ReLU(),
            nn.Conv2d(3, 2, 9, padding=(4, 0)), nn.AdaptiveMaxPool2d(2), last=8,
        ),
        (2, 50, 60),
        BY_LAYER,
    ),
    "conv1d": Case(
        lambda: line(
            nn.Conv1d(2, 3, 4, stride=2), nn.ReLU(), nn.Conv1d(3, 4, 3, padding=1),
            nn.MaxPool1d(2), last=12,
        ),
        (2, 15),
        BY_LAYER,
    ),
    "embedding": Case(
        lambda: line(nn.Embedding(9, 3, padding_idx=2), last=12), (4,), BY_LAYER, 9
    ),
    "residual": Case(Residual, (2, 5, 5), GRAPH),
    "own": Case(OwnParameters, (4,), GRAPH, 11),
    "recurrent": Case(Tied, (4,), GRAPH, CLASSES, (4,)),
    "wide_lstm": Case(Wide, (2, 60, 90), GRAPH),
    "mixes": Case(Unknown, (4,), VMAP),
    "counts": Case(OverTheBatch, (4,), VMAP),
    "prelu": Case(lambda: line(nn.Linear(4, 6), nn.PReLU(), last=6), (4,), VMAP),
}  # fmt: skip


def flat(build: Callable[[], nn.Module], loss: Any = None) -> FlatModule:
    """One model."""
    loss = nn.CrossEntropyLoss() if loss is None else loss
    return FlatModule(build, loss, None, lambda data, whose: data)


def batches(case: Case, n: int, b: int, seed: int) -> tuple[Any, Any]:
    """Random inputs and targets, padding included."""
    chance = torch.Generator().manual_seed(seed)
    shape = (n, b, *case.shape)
    if case.words:
        x = torch.randint(0, case.words, shape, generator=chance)
    else:
        x = torch.randn(shape, generator=chance)
    return x, torch.randint(0, CLASSES, (n, b, *case.y_shape), generator=chance)


def models(model: FlatModule, n: int, seed: int = 0) -> Any:
    """N models, all different."""
    return np.stack([model.initial(Key.root(seed + i)) for i in range(n)])


def one_by_one(
    model: FlatModule, w_ND: Any, x: Any, y: Any, sizes: Any
) -> tuple[Any, Any]:
    """What a stack has to agree with."""
    losses, gradients = [], []
    for row, size in enumerate(sizes):

        def own(part: Any, row: int = row, size: int = size) -> Any:
            return part[row, :size]

        loss, g_D = model.gradient(w_ND[row], map_tensors(x, own), map_tensors(y, own))
        losses.append(loss)
        gradients.append(g_D.copy())
    return np.array(losses), np.stack(gradients)


def assert_close(found: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    """Equal to what another order of summation may change."""
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
    scale = np.abs(expected[1]).max(axis=1, keepdims=True) + 1e-6
    np.testing.assert_allclose(found[1] / scale, expected[1] / scale, atol=2e-5)
