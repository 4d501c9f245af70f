"""The models, in torch."""

import os
from collections.abc import Sequence

import torch
from torch import nn

from benchmarks.simulation.peers.problem import Problem, Weights

DEVICE = "BENCHMARK_DEVICE"  # where peers compute; none: on the CPU


def device() -> torch.device:
    """Where the peers that are loops of ours compute."""
    return torch.device(os.environ.get(DEVICE, "cpu"))


def network(problem: Problem) -> nn.Module:
    """The model with its first weights, on the CPU."""
    made = build(problem.model)
    put(made, problem.initial)
    return made


def build(model: str) -> nn.Module:
    """A model of this name, with weights that are drawn."""
    models = {
        "cnn": _cnn,
        "perceptron": _perceptron,
        "cifar": _cifar,
        "transformer": _Transformer,
    }
    return models[model]()


def _perceptron() -> nn.Module:
    """2,410 parameters for 64 numbers."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def _cnn() -> nn.Module:
    """106,122 parameters for 28 x 28 pixels."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def _cifar() -> nn.Module:
    """1,626,442 parameters for 32 x 32 pixels of three colours, as pfl's CNN."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * 14 * 14, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )


class _Transformer(nn.Module):
    """Three layers of width 96 for sequences of 20 of 10,000 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10_000, 96)
        self.place = nn.Parameter(torch.zeros(20, 96))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(96, 8, 1536, dropout=0.0, batch_first=True)
            for _ in range(3)
        )
        self.out = nn.Linear(96, 10_000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (B, words, T) of the next tokens of (B, T)."""
        mask = nn.Transformer.generate_square_subsequent_mask(20, device=x.device)
        h = self.embed(x) + self.place
        for layer in self.layers:
            h = layer(h, src_mask=mask, is_causal=True)
        logits: torch.Tensor = self.out(h)
        return logits.transpose(1, 2)


@torch.no_grad()
def put(module: nn.Module, weights: Weights) -> None:
    """Gives a module these weights."""
    for parameter, array in zip(module.parameters(), weights, strict=True):
        parameter.copy_(torch.from_numpy(array))


def taken(module: nn.Module) -> Weights:
    """A module's weights, which change with it."""
    return [parameter.detach().cpu().numpy() for parameter in module.parameters()]


def client_tensors(problem: Problem) -> Sequence[tuple[torch.Tensor, torch.Tensor]]:
    """The data of every client, where the peers compute."""
    where = device()
    return [
        (torch.from_numpy(x).to(where), torch.from_numpy(y).to(where))
        for x, y in map(problem.data, range(problem.clients))
    ]


@torch.no_grad()
def accuracy(problem: Problem, weights: Weights) -> float:
    """The share of right answers on the test set."""
    module = network(problem)
    put(module, weights)
    found = module(torch.from_numpy(problem.x_test)).argmax(dim=1)
    return float((found == torch.from_numpy(problem.y_test)).float().mean())
