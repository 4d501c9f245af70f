"""The models, in torch."""

from collections.abc import Sequence

import torch
from torch import nn

from benchmarks.simulation.peers.problem import Problem, Weights


def network(problem: Problem) -> nn.Module:
    """The model with its first weights."""
    made = _cnn() if problem.model == "cnn" else _perceptron()
    put(made, problem.initial)
    return made


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


@torch.no_grad()
def put(module: nn.Module, weights: Weights) -> None:
    """Gives a module these weights."""
    for parameter, array in zip(module.parameters(), weights, strict=True):
        parameter.copy_(torch.from_numpy(array))


def taken(module: nn.Module) -> Weights:
    """A module's weights, which change with it."""
    return [parameter.detach().numpy() for parameter in module.parameters()]


def client_tensors(problem: Problem) -> Sequence[tuple[torch.Tensor, torch.Tensor]]:
    """The data of every client."""
    return [
        (torch.from_numpy(x), torch.from_numpy(y))
        for x, y in map(problem.data, range(problem.clients))
    ]


@torch.no_grad()
def accuracy(problem: Problem, weights: Weights) -> float:
    """The share of right answers on the test set."""
    module = network(problem)
    put(module, weights)
    found = module(torch.from_numpy(problem.x_test)).argmax(dim=1)
    return float((found == torch.from_numpy(problem.y_test)).float().mean())
