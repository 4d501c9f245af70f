"""The work of a training step by layer, where the app is a torch module."""

from typing import NamedTuple

import numpy as np

from fedcore.model import FlatModel
from fedcore.planning.paleo import Layer, optimizer_layer
from fedcore.samples import Samples
from fedcore.user_code import user_code
from fedcore.workload import Workload
from fedrun.config import FederationConfig
from fedsim.population import Population


class Step(NamedTuple):
    """One training step of a client."""

    layers: list[Layer]
    """In the order in which they run; the optimizer last."""
    batch: int
    """Samples of the step."""
    unknown: list[str]
    """Operations for which there is no rule, counted as one FLOP for each value."""


def is_module(workload: Workload) -> bool:
    """Whether the app is a torch module, whose layers can be counted."""
    try:
        from fedtorch import TorchWorkload
    except ModuleNotFoundError:  # torch is not installed, and so the app has none
        return False
    return isinstance(workload, TorchWorkload)


def step_of(workload: Workload, model: FlatModel, config: FederationConfig) -> Step:
    """Counts the layers of a step of the first client.

    Args:
        workload: a ``TorchWorkload``.
        model: the same as one flat vector.
        config: says how many samples a step has.

    Raises:
        UserCodeError: the user's code raised, or a layer does not fit the data.
    """
    from fedtorch import TorchWorkload
    from fedtorch.flops import count_layers

    assert isinstance(workload, TorchWorkload)
    samples = first_samples(workload, config)
    batch = batch_of(len(samples), config)
    x, y = samples.batch(np.arange(batch))
    with user_code("the model"):
        module = workload.model()
    counted = count_layers(module, workload.loss, x, y)
    layers = [*counted.layers, optimizer_layer(model.spec.dim)]
    return Step(layers, batch, counted.unknown)


def first_samples(workload: Workload, config: FederationConfig) -> Samples:
    """The samples of the first client.

    Raises:
        UserCodeError: ``train_data`` raised.
        WorkloadError: there are none.
    """
    client = Population(config.simulate, config.seed).client(0)
    whose = f"train_data of {client.name}"
    with user_code(whose):
        return workload.samples(workload.train_data(client), whose)


def batch_of(samples: int, config: FederationConfig) -> int:
    """The samples of a step of a client that has so many."""
    wanted = getattr(config.algorithm.client, "batch", samples)
    return max(1, min(samples, wanted))
