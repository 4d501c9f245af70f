"""blazefl: its FedAvg, the clients one after the other.

Its pool of processes is created anew each round, and its pool of threads shares one
interpreter: on two cores and a model of this size both are slower.
"""

from enum import StrEnum
from typing import Any

import torch
from blazefl.contrib.fedavg import (
    FedAvgBaseClientTrainer,
    FedAvgBaseServerHandler,
    FedAvgPartitionType,
)
from torch import Generator, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    TensorDataset,
)

from benchmarks.simulation.peers.networks import client_tensors, network, taken
from benchmarks.simulation.peers.problem import Course, Problem


class Model(StrEnum):
    """There is one."""

    ONLY = "only"


class Selector:
    """Makes the model with its first weights."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def select_model(self, model_name: Any) -> nn.Module:
        """The one that there is."""
        return network(self._problem)


class Partitioned:
    """What each client holds."""

    def __init__(self, problem: Problem) -> None:
        self._data: list[Dataset[Any]] = [
            TensorDataset(x, y) for x, y in client_tensors(problem)
        ]

    def get_dataset(self, type_: FedAvgPartitionType, cid: int | None) -> Dataset[Any]:
        """A client's."""
        assert cid is not None
        return self._data[cid]

    def set_dataset(
        self, type_: FedAvgPartitionType, cid: int | None, dataset: Dataset[Any]
    ) -> None:
        """Replaces a client's."""
        assert cid is not None
        self._data[cid] = dataset

    def get_dataloader(
        self,
        type_: FedAvgPartitionType,
        cid: int | None,
        batch_size: int | None,
        generator: Generator | None,
    ) -> DataLoader[Any]:
        """Shuffled batches, each taken from the tensors in one piece."""
        data: Any = self.get_dataset(type_, cid)
        order = RandomSampler(data, generator=generator)
        batches = BatchSampler(order, batch_size or len(data), drop_last=False)
        return DataLoader(data, sampler=batches, batch_size=None)


def main() -> None:
    course = Course()
    problem = course.problem
    torch.set_num_threads(1)
    common: dict[str, Any] = {
        "model_selector": Selector(problem),
        "model_name": Model.ONLY,
        "dataset": Partitioned(problem),
        "device": "cpu",
        "num_clients": problem.clients,
        "batch_size": problem.batch,
        "seed": 0,
    }
    handler = FedAvgBaseServerHandler(
        global_round=course.rounds,
        sample_ratio=(problem.cohort + 0.5) / problem.clients,  # it is rounded down
        **common,
    )
    trainer = FedAvgBaseClientTrainer(epochs=problem.epochs, lr=problem.lr, **common)
    for number in range(1, course.rounds + 1):
        trainer.local_process(handler.downlink_package(), handler.sample_clients())
        for package in trainer.uplink_package():
            handler.load(package)
        course.finished(number, lambda: taken(handler.model))
    course.save()


if __name__ == "__main__":
    main()
