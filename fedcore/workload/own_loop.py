"""Workloads with a training loop of the user's own."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from fedcore.algorithm import Algorithm
from fedcore.clients import SGDConfig
from fedcore.errors import ConfigError, WorkloadError
from fedcore.evaluation import number, numbers
from fedcore.influence.base import Curvature
from fedcore.labels import count_labels
from fedcore.model import FlatModel
from fedcore.params import Tensors
from fedcore.participant import Trained as TaskResult
from fedcore.protocol import MOST_COUNTED
from fedcore.samples import (
    IndexedSamples,
    Samples,
    Subset,
    as_samples,
    describe,
    targets_of,
)
from fedcore.text import keep_finite, wrong_metrics
from fedcore.trees import save_tree
from fedcore.typing import State, Vector
from fedcore.workload.base import Train
from fedcore.workload.named import NamedModel, NamedWorkload
from fedcore.workload.task import LocalTask
from fedcore.workload.training_task import Trained, TrainingTask

NO_CURVATURE = (
    "influence: this workload has a training loop of its own (train=), so its "
    "gradients are not known; write gradient=, or use a TorchWorkload"
)


@dataclass(frozen=True, kw_only=True)
class LoopWorkload(NamedWorkload, made_for="train"):
    """Named arrays that the user's own loop trains, on data in any form."""

    train: Train
    gradient: InitVar[None] = None

    def __post_init__(self, gradient: None) -> None:
        """Checks the functions."""
        self._check(gradient)

    def flat(self) -> FlatModel:
        """Returns the named arrays as one flat vector, which has no gradients."""
        return NamedModel(self, _no_gradient)

    def samples(self, data: Any, whose: str) -> Samples:
        """Returns pairs and subsets as arrays; of other data only the length matters.

        Raises:
            WorkloadError: a pair is not one of samples.
        """
        return wrap_samples(data, whose)

    def fits(self, algorithm: Algorithm) -> None:
        """Checks that the client algorithm needs no gradients.

        Raises:
            ConfigError: it needs some.
        """
        require_plain(algorithm)

    def train_task(
        self, model: FlatModel, public_D: Vector, data: Any, task: LocalTask
    ) -> TaskResult:
        """Has the user's loop compute the update of one task.

        Raises:
            WorkloadError: there are no samples, or what the loop keeps cannot be saved.
        """
        return train_by_loop(self.train, model, public_D, data, task)

    def curvature(self, model: FlatModel) -> Curvature:
        """Refuses: the loop is the user's own, so its steps have no gradients.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(NO_CURVATURE)


def wrap_samples(data: Any, whose: str) -> Samples:
    """Returns pairs and subsets as arrays; of other data only the length matters.

    Raises:
        WorkloadError: a pair is not one of samples.
    """
    if isinstance(data, tuple | Subset):
        return as_samples(data, whose)
    return IndexedSamples(data)


def require_plain(algorithm: Algorithm) -> None:
    """Checks that a client algorithm only passes on its numbers to a loop.

    Raises:
        ConfigError: it needs gradients.
    """
    for client in algorithm.clients.all:
        if not (isinstance(client, SGDConfig) and client.is_plain):
            raise ConfigError(
                f"client: {client.kind} with these settings needs gradients, and "
                "this workload has a training loop of its own (train=); use "
                "local_sgd without momentum and weight decay, which only passes on "
                "steps, lr and batch"
            )


def train_by_loop(
    train: Train, model: FlatModel, public_D: Vector, data: Any, task: LocalTask
) -> TaskResult:
    """Computes the update of one task by a loop that takes and returns named arrays.

    Raises:
        WorkloadError: there are no samples, or what the loop keeps cannot be saved.
    """
    config, size = task.config, _length(data)
    assert isinstance(config, SGDConfig)
    told = TrainingTask(
        seed=task.key.seed(),
        steps=task.step_count(size),
        lr=config.lr,
        batch=config.batch,
        client=task.client,
        version=task.version,
        state=deepcopy(task.kept) or {},  # the loop may write into it
    )
    result = train(model.spec.unflatten(public_D.copy()), data, told)
    if not isinstance(result, Trained):
        raise WorkloadError(
            f"train returned {describe(result)}; expected Trained(params, samples)"
        )
    counts = None
    if task.counts_labels:
        counts = count_labels(targets_of(data), np.arange(size))
    return TaskResult(
        delta_D=public_D - model.spec.flatten(result.params, "what train returned"),
        samples=_check_samples(result.samples),
        steps=told.steps,
        loss=None
        if result.loss is None
        else number("the loss that train returned", result.loss),
        counts=counts,
        kept=_check_state(result.state),
        used=config.used_by(size, told.steps),
        skipped=sum(samples for samples, _ in told.skipped),
        why=told.skipped[-1][1] if told.skipped else "",
        metrics=_check_metrics(result.metrics),
    )


def _no_gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    raise WorkloadError("this workload has a training loop of its own, no gradient")


def _length(data: Any) -> int:
    targets = targets_of(data)
    rows = len(data) if targets is None else len(targets)
    if not rows:
        raise WorkloadError("train_data returned no samples")
    return rows


def _check_samples(samples: Any) -> int:
    """Returns the number of samples that the loop has used.

    Raises:
        WorkloadError: it is no number, or one that no update can have.
    """
    count = number("the number of samples that train returned", samples)
    if not 1 <= count <= MOST_COUNTED or count % 1:
        raise WorkloadError(
            f"train returned {samples} samples; expected 1 to {MOST_COUNTED}"
        )
    return int(count)


def _check_metrics(metrics: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Returns the finite metrics of the training.

    Raises:
        WorkloadError: they are no numbers by name, or have impossible names.
    """
    if metrics is None:
        return None
    found = numbers("", metrics)
    if reason := wrong_metrics(found):
        raise WorkloadError(f"Trained(metrics=...): {reason}")
    return keep_finite(found)


def _check_state(state: Mapping[str, Any] | None) -> State:
    """Returns the state that the loop keeps, if it can be saved.

    Raises:
        WorkloadError: it holds something else than arrays, numbers and texts by name.
    """
    if not state:
        return None
    kept = dict(state)
    try:
        save_tree(kept, "state", {})
    except TypeError as error:
        raise WorkloadError(
            f"Trained(state=...): expected arrays, numbers and texts by name; {error}"
        ) from None
    return kept
