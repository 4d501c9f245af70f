"""The workload of a problem, in a module that any other process can import."""

from functools import cache, partial
from pathlib import Path

from torch import nn

from benchmarks.simulation.peers.networks import network
from benchmarks.simulation.peers.problem import Problem, load
from fedcore.samples import Subset
from fedcore.workload import Client
from fedtorch import TorchWorkload


def workload(path: Path) -> TorchWorkload:
    """A module with the first weights, and everybody's rows, in any process."""
    return TorchWorkload(
        model=partial(_model, path),
        loss=nn.CrossEntropyLoss(),
        train_data=partial(_train_data, path),
    )


@cache
def _load(path: Path) -> Problem:
    return load(path)


def _model(path: Path) -> nn.Module:
    return network(_load(path))


def _train_data(path: Path, client: Client) -> Subset:
    problem = _load(path)
    return Subset(problem.x, problem.y, problem.rows_of(client.index))
