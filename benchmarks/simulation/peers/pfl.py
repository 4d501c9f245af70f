"""pfl-research: its simulated backend and its FederatedAveraging.

Under torchrun its processes share the users of a round, and the first one records the
results.
"""

import os
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn

from benchmarks.simulation.peers.networks import client_tensors, network, taken
from benchmarks.simulation.peers.problem import Course, Problem


class Classifier(nn.Module):
    """The two functions that pfl wants of a module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        """The logits."""
        return self.inner(x)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """What is made small."""
        return nn.functional.cross_entropy(self(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        """Nothing, since evaluation is not measured."""
        return {}


class Notes(TrainingProcessCallback):
    """Told after each round."""

    def __init__(self, course: Course, model: nn.Module) -> None:
        self._course, self._model = course, model

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Goes on in any case."""
        self._course.finished(central_iteration + 1, lambda: taken(self._model))
        return False, Metrics()


def users(problem: Problem) -> FederatedDataset:
    """Their data, shuffled anew whenever somebody is asked to train."""
    data = client_tensors(problem)

    def dataset(user: int) -> PyTorchTensorDataset:
        x, y = data[user]
        order = torch.randperm(len(y))
        return PyTorchTensorDataset((x[order], y[order]), user_id=str(user))

    everybody = np.random.default_rng(0).permutation(problem.clients).tolist()
    return FederatedDataset(dataset, get_user_sampler("minimize_reuse", everybody))


def main() -> None:
    course = Course()
    problem = course.problem
    torch.set_num_threads(1)
    inner = network(problem)
    classifier = Classifier(inner)
    model = PyTorchModel(
        classifier,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(classifier.parameters(), lr=1.0),
    )
    data = users(problem)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=course.rounds,
            evaluation_frequency=course.rounds + 1,
            train_cohort_size=problem.cohort,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()]),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=problem.epochs,
            local_learning_rate=problem.lr,
            local_batch_size=problem.batch,
        ),
        callbacks=[Notes(course, inner)],
    )
    if os.environ.get("RANK", "0") == "0":
        course.save()
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
