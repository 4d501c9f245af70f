"""A few real updates of a federation's app: those of its first tasks."""

from typing import NamedTuple

import numpy as np

from fedcore.arrays import finite
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.payloads import Layout
from fedcore.training import Trainer, initial_model, task_key
from fedcore.typing import Vector
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload
from fedrun.config import FederationConfig

CLIENTS = 3  # how many clients the updates come from


class Sample(NamedTuple):
    """A few real updates of a model."""

    spec: ParamSpec
    deltas: list[Vector]

    @property
    def layout(self) -> Layout:
        """Values per tensor."""
        return self.spec.sizes


def first_updates(workload: Workload, config: FederationConfig) -> Sample:
    """The updates of the first tasks of a few clients.

    Raises:
        UserCodeError: the user's code raised.
        ConfigError: a first task diverges.
    """
    with user_code("the model"):
        model = workload.flat()
    trainer = Trainer(workload, config.algorithm.build(model.spec), model=model)
    initial_D = initial_model(model, config.seed)
    clients, deltas = config.simulate.clients, []
    for index in range(min(CLIENTS, clients)):
        name = f"client-{index}"
        with user_code(f"train_data of {name}"):
            client = Client(name, index, clients, config.simulate.args)
            data = workload.train_data(client)
        delta_D = trainer.train(initial_D, data, task_key(config.seed, name, 1)).delta_D
        if not finite(delta_D):
            raise ConfigError(
                f"the first task of {name} ends in values that are not finite; a "
                "smaller algorithm.client.lr may help"
            )
        deltas.append(np.array(delta_D))
    return Sample(model.spec, deltas)
